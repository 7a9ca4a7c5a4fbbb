package storage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrOtherPool means that a pool isn't known to be the one that was created or adopted.
var ErrOtherPool = fmt.Errorf("%w: it may be another storage pool", libvirt.ErrOperationInvalid)

// PoolOrigin is what a resource knows of its pool from its last apply or its import. The data of a pool that isn't that
// one isn't deleted with it: a host that was silent during the creation may have another pool of the same name, and a
// user may have changed the source of a pool since.
type PoolOrigin struct {
	// UUIDs are those of the pools that the resource created or imported, on whichever host.
	UUIDs []string
	Pool  Pool
	// Imported are the pools of the hosts with which the resource was imported, by host: they may differ.
	Imported map[string]Pool `json:",omitempty"`
}

// Check returns an error if a host's pool isn't the one of the resource: then its data isn't that of the resource.
func (o PoolOrigin) Check(host, uuid string, is Pool) error {
	was, imported := o.Imported[host]
	if !imported {
		was = o.Pool
	}
	differs := is.OtherStorage(was)
	if from, to := was.Directory(), is.Directory(); differs == "" && from != "" && path.Clean(from) != path.Clean(to) {
		differs = insteadOf("target.path", to, from)
	}
	undo := ""
	switch {
	case len(o.UUIDs) == 0:
		differs = "may be another one: which pool was created or adopted here is not recorded"
	case !slices.Contains(o.UUIDs, uuid):
		differs = fmt.Sprintf("has another UUID, %s: %s. It was neither created nor adopted here", uuid,
			strings.Join(append(slices.Clone(is.location()), "type = "+is.Type), ", "))
	case differs != "":
		differs = "has " + differs + ". When it was last changed or adopted here, it had the other value"
		undo = ". If that was a mistake, change it back (with virsh pool-edit, or by another run if one failed)"
	default:
		return nil
	}
	return fmt.Errorf("%w: on_destroy is \"delete\", and storage pool %q %s, so its data isn't deleted. To keep the "+
		"data, first set on_destroy to \"keep\", as a change of its own%s",
		ErrOtherPool, is.Name, differs, undo)
}

// location returns where the pool's data is, as attributes.
func (p Pool) location() (attributes []string) {
	for _, f := range []struct {
		name  string
		value *string
	}{{"source.name", p.SourceName}, {"source.dir", p.SourceDir}, {"target.path", p.Path}} {
		if f.value != nil {
			attributes = append(attributes, fmt.Sprintf("%s = %q", f.name, *f.value))
		}
	}
	return attributes
}

// Applied returns the origin of a pool after it was changed to p, which keeps what p doesn't declare.
func (o PoolOrigin) Applied(p Pool) PoolOrigin {
	after := PoolOrigin{UUIDs: o.UUIDs, Pool: p.over(o.Pool)}
	for host, was := range o.Imported {
		if after.Imported == nil {
			after.Imported = map[string]Pool{}
		}
		after.Imported[host] = p.over(was)
	}
	return after
}

// over returns the storage of a pool that was changed to p.
func (p Pool) over(was Pool) Pool {
	before := texts(&was)
	for i, f := range texts(&p) {
		if *f.value == nil {
			*f.value = *before[i].value
		}
	}
	if p.Devices == nil {
		p.Devices = was.Devices
	}
	if p.SourceHosts == nil {
		p.SourceHosts = was.SourceHosts
	}
	if p.Adapter == nil {
		p.Adapter = was.Adapter
	}
	p.SourceName = p.sourceName()
	p.Auth = nil // It doesn't say which storage it is.
	return p
}

// ImportedPools returns the origin of a pool that is imported: the pools that hosts have now.
func ImportedPools(found []hostset.Answer[HostPool]) PoolOrigin {
	o := PoolOrigin{Imported: map[string]Pool{}}
	for i, a := range found {
		o.UUIDs = append(o.UUIDs, a.Value.UUID)
		o.Imported[a.Host] = a.Value.over(Pool{})
		if i == 0 {
			o.Pool = o.Imported[a.Host]
		}
	}
	return o
}

// Only returns the pool with only those attributes that declared has, too.
func (p Pool) Only(declared Pool) Pool {
	has := texts(&declared)
	for i, f := range texts(&p) {
		if *has[i].value == nil {
			*f.value = nil
		}
	}
	if declared.Devices == nil {
		p.Devices = nil
	}
	if declared.SourceHosts == nil {
		p.SourceHosts = nil
	}
	if declared.Adapter == nil {
		p.Adapter = nil
	}
	if declared.Auth == nil {
		p.Auth = nil
	}
	return p
}
