package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Pool is the declared part of a storage pool, or what a host reports. A nil field is not declared, or doesn't exist.
type Pool struct {
	Name, Type string

	Path                      *string // target.path
	Mode, Owner, Group, Label *string // target.permissions

	SourceName, SourceDir, SourceFormat *string
	Initiator, ProtocolVersion          *string
	Devices                             []string
	SourceHosts                         []SourceHost
	Adapter                             *Adapter
	Auth                                *Auth
}

// SourceHost is the server of a pool.
type SourceHost struct {
	Name string
	Port *int64
}

// Adapter is the SCSI adapter of a pool of type scsi.
type Adapter struct{ Type, Name, Parent, WWNN, WWPN *string }

// Auth is how a host authenticates to the server.
type Auth struct {
	Type, Username string
	// Secret is the UUID of a secret of the host.
	Secret string
}

// texts returns the fields of a pool that are one text each, with their places in libvirt's XML.
func texts(p *Pool) []textField {
	return []textField{
		{&p.Path, "target/path", "", samePath},
		{&p.Mode, "target/permissions/mode", "", sameOctal},
		{&p.Owner, "target/permissions/owner", "", sameText},
		{&p.Group, "target/permissions/group", "", sameText},
		{&p.Label, "target/permissions/label", "", sameText},
		{&p.SourceName, "source/name", "", sameText},
		{&p.SourceDir, "source/dir", "path", samePath},
		{&p.SourceFormat, "source/format", "type", sameText},
		{&p.Initiator, "source/initiator/iqn", "name", sameText},
		{&p.ProtocolVersion, "source/protocol", "ver", sameText},
	}
}

type textField struct {
	value    **string
	at, attr string // attr is "" if the value is the element's text
	same     func(a, b string) bool
}

func sameText(a, b string) bool { return a == b }

// Directory returns the directory of a pool of files; "" for another pool, or if it isn't declared.
func (p Pool) Directory() string {
	if !FilePool(p.Type) || p.Path == nil {
		return ""
	}
	return *p.Path
}

// CheckImage returns why the pool can't have an image of that format, which is "" if unknown; nil if it can.
func (p Pool) CheckImage(format string) error {
	switch {
	case p.kind().imagesByHand != "":
		return fmt.Errorf("%w: storage pool %q is of type %s, and %s", libvirt.ErrUnsupported, p.Name, p.Type,
			p.kind().imagesByHand)
	case !p.kind().namedCopies():
		return fmt.Errorf("%w: storage pool %q is of type %s, in which libvirt can't create volumes with the names of "+
			"images. Use a pool of one of these types: %s", libvirt.ErrUnsupported, p.Name, p.Type,
			strings.Join(typesThat(kind.namedCopies), ", "))
	case format == "" || format == "raw" || p.kind().anyFormat:
		return nil
	}
	return fmt.Errorf("%w: storage pool %q is of type %s, whose volumes are raw, and the image is %s; "+
		"convert it with qemu-img convert -O raw", libvirt.ErrUnsupported, p.Name, p.Type, format)
}

// ErrCreatesNone means that libvirt creates no volumes in pools of this type: they are made by other means.
var ErrCreatesNone = errors.New("in which libvirt can't create volumes")

// ErrCopiesNone means that libvirt can't copy volumes into pools of this type: that is done by other means.
var ErrCopiesNone = errors.New("into which libvirt can't copy volumes and images")

// ErrRawOnly means that the volumes of pools of this type have no format.
var ErrRawOnly = errors.New("whose volumes are raw")

// CheckVolume returns why libvirt can't create the volume in the pool, nil if it can.
func (p Pool) CheckVolume(d Disk) error {
	switch k := p.kind(); {
	case k.existing:
		return fmt.Errorf("%w: storage pool %q is of type %s, %w. Create the volume with the tools of the storage, and run "+
			"\"virsh pool-refresh %[2]s\" on the host", libvirt.ErrUnsupported, p.Name, p.Type, ErrCreatesNone)
	case d.source() != nil && k.copiesByHand != "":
		return fmt.Errorf("%w: storage pool %q is of type %s, %w. %s, and run \"virsh pool-refresh %[2]s\" on the host",
			libvirt.ErrUnsupported, p.Name, p.Type, ErrCopiesNone, k.copiesByHand)
	case d.Overlay != nil && (k.devices || k.filled):
		return fmt.Errorf("%w: storage pool %q is of type %s, whose volumes can't be overlays of an image; set clone to "+
			"\"full\", which copies it", libvirt.ErrInvalid, p.Name, p.Type)
	case !k.has(d.Format):
		return fmt.Errorf("%w: storage pool %q is of type %s, %w, and format is %q; leave it out, or set it to \"raw\". For "+
			"%[5]s, use a pool of type dir, fs or netfs", libvirt.ErrInvalid, p.Name, p.Type, ErrRawOnly, d.Format)
	case k.thick && d.Preallocation != "" && !Thick(d.Preallocation):
		return fmt.Errorf("%w: storage pool %q is of type %s, in which a volume occupies all its space at once, and "+
			"preallocation is %q; leave it out, or set it to %q", libvirt.ErrInvalid, p.Name, p.Type, d.Preallocation,
			PreallocationFull)
	}
	return nil
}

// CheckGrowth returns why no volume of the pool can grow, nil if it can: libvirt can grow files, but no devices
// and no LUNs.
func (p Pool) CheckGrowth() error {
	if !p.kind().devices && !p.kind().staying {
		return nil
	}
	return fmt.Errorf("%w: libvirt can't grow the devices in a storage pool of type %s", libvirt.ErrUnsupported, p.Type)
}

func samePath(a, b string) bool { return path.Clean(a) == path.Clean(b) }

func sameOctal(a, b string) bool {
	x, errX := strconv.ParseUint(a, 8, 32)
	y, errY := strconv.ParseUint(b, 8, 32)
	return errX == nil && errY == nil && x == y || a == b
}

// ReadPool parses libvirt's XML.
func ReadPool(document string) (*Pool, error) {
	root, err := poolElement(document)
	if err != nil {
		return nil, err
	}
	p := &Pool{Name: textOf(root, "name"), Type: root.SelectAttrValue("type", "")}
	for _, f := range texts(p) {
		e := root.FindElement(f.at)
		switch {
		case e == nil:
		case f.attr == "" && e.Text() != "":
			text := e.Text()
			*f.value = &text
		case f.attr != "":
			*f.value = attribute(e, f.attr)
		}
	}
	for _, e := range root.FindElements("source/device") {
		p.Devices = append(p.Devices, e.SelectAttrValue("path", ""))
	}
	for _, e := range root.FindElements("source/host") {
		h := SourceHost{Name: e.SelectAttrValue("name", "")}
		if port, err := strconv.ParseInt(e.SelectAttrValue("port", ""), 10, 64); err == nil && port != 0 {
			h.Port = &port
		}
		p.SourceHosts = append(p.SourceHosts, h)
	}
	if e := root.FindElement("source/adapter"); e != nil {
		p.Adapter = &Adapter{
			Type: attribute(e, "type"), Name: attribute(e, "name"), Parent: attribute(e, "parent"),
			WWNN: attribute(e, "wwnn"), WWPN: attribute(e, "wwpn"),
		}
	}
	if e := root.FindElement("source/auth"); e != nil {
		p.Auth = &Auth{Type: e.SelectAttrValue("type", ""), Username: e.SelectAttrValue("username", "")}
		if secret := e.SelectElement("secret"); secret != nil {
			p.Auth.Secret = secret.SelectAttrValue("uuid", "")
		}
	}
	return p, nil
}

func poolElement(document string) (*etree.Element, error) {
	doc := etree.NewDocument()
	if err := doc.ReadFromString(document); err != nil || doc.Root() == nil || doc.Root().Tag != "pool" {
		return nil, fmt.Errorf("%w: a storage pool's definition can't be read", libvirt.ErrInternal)
	}
	return doc.Root(), nil
}

func textOf(root *etree.Element, at string) string {
	if e := root.FindElement(at); e != nil {
		return e.Text()
	}
	return ""
}

func attribute(e *etree.Element, name string) *string {
	if a := e.SelectAttr(name); a != nil {
		return &a.Value
	}
	return nil
}

// Merge returns the declared fields, with the host's value where it differs. Fields that aren't declared stay
// undeclared; values that mean the same stay as they are declared.
func (p Pool) Merge(actual Pool) Pool {
	merged := p
	have := texts(&actual)
	for i, f := range texts(&merged) {
		if *f.value == nil {
			continue
		}
		if is := *have[i].value; is == nil || !f.same(**f.value, *is) {
			*f.value = is
		}
	}
	if p.Devices != nil && !slices.Equal(p.Devices, actual.Devices) {
		merged.Devices = actual.Devices
	}
	if p.SourceHosts != nil && !slices.EqualFunc(p.SourceHosts, actual.SourceHosts, sameHost) {
		merged.SourceHosts = actual.SourceHosts
	}
	if p.Adapter != nil && !p.Adapter.isIn(actual.Adapter) {
		merged.Adapter = actual.Adapter
	}
	if p.Auth != nil && (actual.Auth == nil || *p.Auth != *actual.Auth) {
		merged.Auth = actual.Auth
	}
	return merged
}

// sameHost compares two servers. If no port is declared, any port is the same.
func sameHost(declared, is SourceHost) bool {
	return declared.Name == is.Name && (declared.Port == nil || is.Port != nil && *declared.Port == *is.Port)
}

func (h SourceHost) equal(other SourceHost) bool {
	return h.Name == other.Name && (h.Port == nil) == (other.Port == nil) && (h.Port == nil || *h.Port == *other.Port)
}

func (a *Adapter) isIn(is *Adapter) bool {
	if is == nil {
		return false
	}
	have := is.fields()
	for i, f := range a.fields() {
		if f.value != nil && (have[i].value == nil || *have[i].value != *f.value) {
			return false
		}
	}
	return true
}

func (a *Adapter) fields() []struct {
	name  string
	value *string
} {
	return []struct {
		name  string
		value *string
	}{{"type", a.Type}, {"name", a.Name}, {"parent", a.Parent}, {"wwnn", a.WWNN}, {"wwpn", a.WWPN}}
}

// IsIn reports whether the host's pool is as declared.
func (p Pool) IsIn(actual Pool) bool {
	return p.Name == actual.Name && p.Type == actual.Type && p.Merge(actual).equal(p)
}

// Mounted returns the pool without what libvirt doesn't see of it while its storage is mounted: the permissions are
// those of the mount point, and libvirt reads those of the filesystem that is mounted there.
func (p Pool) Mounted() Pool {
	if p.kind().mounts {
		p.Mode, p.Owner, p.Group, p.Label = nil, nil, nil, nil
	}
	return p
}

// isActiveAs reports whether the active definition of a host's pool is that of the persistent one. libvirt reads the
// permissions of an active pool from its directory.
func (p Pool) isActiveAs(live Pool) bool {
	p.Mode, p.Owner, p.Group, p.Label = nil, nil, nil, nil
	return p.IsIn(live)
}

func (p Pool) equal(other Pool) bool {
	theirs := texts(&other)
	for i, f := range texts(&p) {
		a, b := *f.value, *theirs[i].value
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			return false
		}
	}
	return slices.Equal(p.Devices, other.Devices) &&
		slices.EqualFunc(p.SourceHosts, other.SourceHosts, SourceHost.equal) &&
		p.Adapter == other.Adapter && (p.Auth == other.Auth || p.Auth != nil && other.Auth != nil && *p.Auth == *other.Auth)
}

// Document returns libvirt's XML of a new pool. If uuid is "", libvirt chooses.
func (p Pool) Document(uuid string) (string, error) {
	root := etree.NewElement("pool")
	root.CreateAttr("type", p.Type)
	root.CreateElement("name").SetText(p.Name)
	if uuid != "" {
		root.CreateElement("uuid").SetText(uuid)
	}
	return p.patch(root)
}

// Patch sets the declared fields in a host's XML, and leaves the rest as it is.
func (p Pool) Patch(document string) (string, error) {
	root, err := poolElement(document)
	if err != nil {
		return "", err
	}
	return p.patch(root)
}

func (p Pool) patch(root *etree.Element) (string, error) {
	for _, f := range texts(&p) {
		switch e, v := f.at, *f.value; {
		case v == nil:
		case f.attr == "":
			ensure(root, e).SetText(*v)
		default:
			ensure(root, e).CreateAttr(f.attr, *v)
		}
	}
	if p.Devices != nil {
		source := ensure(root, "source")
		removeAll(source, "device")
		for _, d := range p.Devices {
			source.CreateElement("device").CreateAttr("path", d)
		}
	}
	if p.SourceHosts != nil {
		source := ensure(root, "source")
		removeAll(source, "host")
		for _, h := range p.SourceHosts {
			e := source.CreateElement("host")
			e.CreateAttr("name", h.Name)
			if h.Port != nil {
				e.CreateAttr("port", strconv.FormatInt(*h.Port, 10))
			}
		}
	}
	if p.Adapter != nil {
		e := ensure(root, "source/adapter")
		for _, f := range p.Adapter.fields() {
			if f.value != nil {
				e.CreateAttr(f.name, *f.value)
			}
		}
	}
	if p.Auth != nil {
		source := ensure(root, "source")
		removeAll(source, "auth")
		e := source.CreateElement("auth")
		e.CreateAttr("type", p.Auth.Type)
		e.CreateAttr("username", p.Auth.Username)
		e.CreateElement("secret").CreateAttr("uuid", p.Auth.Secret)
	}
	doc := etree.NewDocument()
	doc.SetRoot(root.Copy())
	return doc.WriteToString()
}

// ensure returns the element at a path below root, and creates the missing elements of the path.
func ensure(root *etree.Element, at string) *etree.Element {
	e := root
	for _, tag := range strings.Split(at, "/") {
		next := e.SelectElement(tag)
		if next == nil {
			next = e.CreateElement(tag)
		}
		e = next
	}
	return e
}

func removeAll(e *etree.Element, tag string) {
	for _, child := range e.SelectElements(tag) {
		e.RemoveChild(child)
	}
}
