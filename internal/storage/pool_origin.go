package storage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PoolOrigin is what a resource knows of its pool from its last apply or its import. The data of a pool that isn't that
// one isn't deleted with it: a host that was silent during the creation may have another pool of the same name, and a
// user may have changed the source of a pool since.
type PoolOrigin struct {
	// UUIDs are those of the pools that the resource created or imported, on whichever host.
	UUIDs []string
	Pool  Pool
}

// Check returns an error if a host's pool isn't the one of the resource: then its data isn't that of the resource.
func (o PoolOrigin) Check(uuid string, is Pool) error {
	differs := is.OtherStorage(o.Pool)
	if from, to := o.Pool.Directory(), is.Directory(); differs == "" && from != "" && path.Clean(from) != path.Clean(to) {
		differs = insteadOf("target.path", to, from)
	}
	undo := ""
	switch {
	case len(o.UUIDs) == 0:
		differs = "may be another one: the state doesn't record which pool the resource created or imported"
	case !slices.Contains(o.UUIDs, uuid):
		differs = fmt.Sprintf("has another UUID, %s: %s. The resource neither created nor imported it", uuid,
			strings.Join(append(slices.Clone(is.location()), "type = "+is.Type), ", "))
	case differs != "":
		differs = "has " + differs + ". The last complete apply, or the import, had the other value"
		undo = "change it back (with virsh pool-edit, or by another apply if one failed), or "
	default:
		return nil
	}
	return fmt.Errorf("%w: on_destroy is \"delete\", and storage pool %q %s, so its data isn't deleted. To keep the "+
		"data, set on_destroy to \"keep\" and apply before the destroy. To delete it, %smake this pool the "+
		"resource's: remove the resource from the state with \"terraform state rm\", import it, apply, and destroy it",
		libvirt.ErrOperationInvalid, is.Name, differs, undo)
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
	before := texts(&o.Pool)
	for i, f := range texts(&p) {
		if *f.value == nil {
			*f.value = *before[i].value
		}
	}
	if p.Devices == nil {
		p.Devices = o.Pool.Devices
	}
	if p.SourceHosts == nil {
		p.SourceHosts = o.Pool.SourceHosts
	}
	if p.Adapter == nil {
		p.Adapter = o.Pool.Adapter
	}
	p.SourceName = p.sourceName()
	p.Auth = nil // It doesn't say which storage it is.
	return PoolOrigin{UUIDs: o.UUIDs, Pool: p}
}
