package domain

import (
	"errors"
	"strconv"
	"time"

	"github.com/beevik/etree"
)

// MetadataNamespace is the namespace URI of our element in a domain's <metadata>, and MetadataKey its prefix.
// virDomainSetMetadata requires both.
const (
	MetadataNamespace = "urn:virtfleet:1"
	MetadataKey       = "virtfleet"
)

// ErrNewerMetadata says that a newer version of this program wrote the metadata. The metadata is read as far as this
// version understands it, and must not be written.
var ErrNewerMetadata = errors.New("the VM's metadata was written by a newer version of virtfleet")

// Metadata is what only the provider records about a VM.
type Metadata struct {
	Labels      map[string]string
	RunStrategy string
	// Host is the host that the configuration pins the VM to; "": none.
	Host                   string
	TerminationGracePeriod *time.Duration
	DeletionProtection     *bool
	// EvictionStrategy is the VM's own strategy; "": the strategy of a policy.
	EvictionStrategy string
	// HostLabels are the labels that the VM's host must have. Avoids are the labels of VMs that must not be on its
	// host.
	HostLabels, Avoids map[string]string
	// Kept are the parts of the VM that must not be deleted with it, such as PartNVRAM, in alphabetical order.
	Kept []string
	// DedicatedCPUs says that no other VM may be pinned to the host CPUs that this VM is pinned to.
	DedicatedCPUs bool
	// SharedDisks are the keys of disks that are declared to be the same disk on all hosts.
	SharedDisks []string
	// OwnDisks are the disks that were created with the VM, by key.
	OwnDisks map[string]OwnDisk
	// Applied are the sources that the disks had when any configuration was last applied, by key, as Spec.AppliedSources
	// returns them. By them an import, or another state, tells what has been switched by hand.
	Applied map[string]string
	// ExtraDevices are the devices that are declared as XML, by key, as NormalDeviceXML writes them. They are recorded
	// because libvirt adds to the devices in the definition.
	ExtraDevices map[string]string
	// DeviceClasses are the classes of the host devices that a host chose by class, by key.
	DeviceClasses map[string]string
	// Eviction says that the VM is to leave a host. It stays until a drain has moved the VM or given up.
	Eviction *Eviction
	// Devices maps devices without our alias to their keys, by a disk's target ("vda") or an interface's MAC.
	Devices map[string]string
	// Creating marks a VM whose creation isn't finished.
	Creating *Creating
	// Restarting says that an update shuts the guest down to start it again, or was interrupted meanwhile.
	Restarting *Restarting
	// Starting says that a run starts the VM from saved memory, or was interrupted meanwhile.
	Starting *Starting
	// Deleting says that a run deletes the VM and its own disks, or was interrupted meanwhile.
	Deleting *Deleting
	// Staged is what an update has left to the next start.
	Staged Staged
	// Unfinished is what an update has written to the definition and the running VM doesn't have, see UnfinishedBy. It
	// stays if the update fails.
	Unfinished Staged
	// FreshNVRAM says that the next start needs new firmware variables, because another firmware wrote the existing
	// ones.
	FreshNVRAM bool
	// VariablesOf is the firmware that wrote the existing variables, see WithFirmware; "" if that is unknown.
	VariablesOf string
	// Migrations are the records of the last migrations, oldest first, at most MaxMigrations.
	Migrations []Migration
	// Copies are files that moves created on other hosts. While the VM is here, the files are unfinished, and any run
	// that finds them removes them.
	Copies []Copy
	// LeftVolumes are the volumes of own disks that moves copied, at their old places, those of own disks that the VM lost
	// before it moved, and the originals of other disks that moves are to remove. On a host that the VM isn't on they are
	// no longer used, and any run that finds them removes them.
	LeftVolumes []LeftVolume
	// Generation counts our writes: of two definitions of a VM, the higher number is newer. 0: never written.
	Generation uint64
	// Newer is observed only: this version doesn't know the element's version, see ErrNewerMetadata.
	Newer bool
}

// Creating marks a creation that is in progress or was interrupted.
type Creating struct {
	// Owner identifies the run that creates the VM. SpecHash is the hash of the spec that the run creates.
	Owner, SpecHash string
	Since           time.Time
	// Started says that the run was about to start the VM, so that its guest may have run. It is recorded only if the run
	// strategy starts a guest once.
	Started bool
}

// Restarting marks a restart that is in progress or was interrupted.
type Restarting struct {
	// Owner identifies the run that restarts the VM. Since is when it was about to shut the guest down.
	Owner string
	Since time.Time
	// Forced says that the run has forced the guest off.
	Forced bool
}

// Eviction is the request that a VM leave a host.
type Eviction struct {
	// Host is the host to leave, by its name in the owner's configuration. HostUUID is that host's UUID in libvirt, "" if
	// not recorded. Owner identifies the run that asked for it.
	Host, HostUUID, Owner string
	Since                 time.Time
}

// Leaves reports whether the request, which may be nil, is to leave this host. The host's UUID decides if it is
// recorded: the host may have another name now, and another host its old one.
func (e *Eviction) Leaves(host, hostUUID string) bool {
	switch {
	case e == nil:
		return false
	case e.HostUUID != "" && hostUUID != "":
		return e.HostUUID == hostUUID
	default:
		return e.Host == host
	}
}

// metadataVersion is the version of our element that this program writes.
const metadataVersion = 1

// Metadata reads our element. Without an element, or with one that was written for another VM, it returns the zero
// value: a VM that was copied by hand has the element of the original, whose volumes and moves aren't its own.
func (d *Definition) Metadata() Metadata {
	vm := d.metadataElement()
	if vm == nil {
		return Metadata{}
	}
	version, ok := number(attr(vm, "version"))
	newer := !ok || version > metadataVersion
	if !d.isOf(vm) {
		return Metadata{Newer: newer}
	}
	read := Metadata{
		Newer:        newer,
		RunStrategy:  text(ownChild(vm, "run-strategy")),
		Host:         text(ownChild(vm, "host")),
		Staged:       stagedList.read(vm),
		Unfinished:   unfinishedList.read(vm),
		FreshNVRAM:   ownChild(vm, "fresh-nvram") != nil,
		VariablesOf:  text(ownChild(vm, "variables-of")),
		Labels:       labelList.read(vm),
		Devices:      deviceList.read(vm),
		Migrations:   readMigrations(vm),
		HostLabels:   hostLabelList.read(vm),
		Avoids:       antiAffinityList.read(vm),
		SharedDisks:  readKeys(ownChild(vm, "shared-disks"), "disk"),
		OwnDisks:     readOwnDisks(vm),
		Applied:      appliedList.read(vm),
		ExtraDevices: extraDeviceList.read(vm),
		Copies:       readCopies(vm),
		LeftVolumes:  readLeftVolumes(vm),
		Starting:     readStarting(vm),
		Deleting:     readDeleting(vm),

		EvictionStrategy: text(ownChild(vm, "eviction-strategy")),
		DedicatedCPUs:    ownChild(vm, "dedicated-cpus") != nil,
		Kept:             readKeys(ownChild(vm, "kept"), "part"),
		DeviceClasses:    deviceClassList.read(vm),
	}
	// A generation that can't be read counts as none.
	read.Generation, _ = strconv.ParseUint(text(ownChild(vm, "generation")), 10, 64)
	if period, err := time.ParseDuration(text(ownChild(vm, "termination-grace-period"))); err == nil {
		read.TerminationGracePeriod = new(period)
	}
	if protection := text(ownChild(vm, "deletion-protection")); protection != "" {
		read.DeletionProtection = new(protection == "true")
	}
	if creating := ownChild(vm, "creating"); creating != nil {
		// A time that can't be read is the zero time: the mark counts all the same.
		since, _ := time.Parse(time.RFC3339, attr(creating, "since"))
		read.Creating = &Creating{
			Owner: attr(creating, "owner"), SpecHash: attr(creating, "spec"), Since: since,
			Started: attr(creating, "started") == "yes",
		}
	}
	if restarting := ownChild(vm, "restarting"); restarting != nil {
		since, _ := time.Parse(time.RFC3339, attr(restarting, "since"))
		read.Restarting = &Restarting{
			Owner: attr(restarting, "owner"), Since: since, Forced: attr(restarting, "forced") == "true",
		}
	}
	if requested := ownChild(vm, "eviction-requested"); requested != nil {
		since, _ := time.Parse(time.RFC3339, attr(requested, "since"))
		read.Eviction = &Eviction{
			Host: attr(requested, "host"), HostUUID: attr(requested, "host-uuid"), Owner: attr(requested, "owner"), Since: since,
		}
	}
	return read
}

// SetMetadata writes our element, and keeps children and attributes that it doesn't know. A zero value removes the
// element, unless such children or attributes remain. The only error it returns is ErrNewerMetadata.
func (d *Definition) SetMetadata(m Metadata) error {
	have := d.Metadata()
	if have.Newer {
		return ErrNewerMetadata
	}
	if sameMetadata(have, m) {
		return nil
	}
	vm := d.metadataElement()
	if vm == nil {
		metadata := ensure(d.root(), "metadata", "description", "title", "genid", "uuid", "name")
		vm = newMetadataElement()
		insert(metadata, vm)
	}
	setAttr(vm, "version", strconv.Itoa(metadataVersion))
	setAttr(vm, "uuid", d.UUID())
	m.write(vm)
	if len(vm.ChildElements()) == 0 {
		metadata := vm.Parent()
		drop(vm)
		if len(metadata.ChildElements()) == 0 {
			drop(metadata)
		}
	}
	return nil
}

func newMetadataElement() *etree.Element {
	vm := etree.NewElement("vm")
	vm.Space = MetadataKey
	vm.CreateAttr("xmlns:"+MetadataKey, MetadataNamespace)
	return vm
}

// write replaces the children that this version knows.
func (m Metadata) write(vm *etree.Element) {
	labelList.write(vm, m.Labels)
	setOwn(vm, "run-strategy", m.RunStrategy)
	setOwn(vm, "host", m.Host)
	period, protection := "", ""
	if m.TerminationGracePeriod != nil {
		period = m.TerminationGracePeriod.String()
	}
	if m.DeletionProtection != nil {
		protection = strconv.FormatBool(*m.DeletionProtection)
	}
	setOwn(vm, "termination-grace-period", period)
	setOwn(vm, "deletion-protection", protection)
	deviceList.write(vm, m.Devices)
	hostLabelList.write(vm, m.HostLabels)
	antiAffinityList.write(vm, m.Avoids)
	extraDeviceList.write(vm, m.ExtraDevices)
	deviceClassList.write(vm, m.DeviceClasses)
	setOwn(vm, "eviction-strategy", m.EvictionStrategy)
	writeKeys(vm, "shared-disks", "disk", m.SharedDisks)
	writeOwnDisks(vm, m.OwnDisks)
	appliedList.write(vm, m.Applied)
	drop(ownChild(vm, "eviction-requested"))
	if m.Eviction != nil {
		requested := addOwn(vm, "eviction-requested")
		setAttr(requested, "host", m.Eviction.Host)
		if m.Eviction.HostUUID != "" {
			setAttr(requested, "host-uuid", m.Eviction.HostUUID)
		}
		setAttr(requested, "owner", m.Eviction.Owner)
		setAttr(requested, "since", m.Eviction.Since.UTC().Format(time.RFC3339))
	}
	drop(ownChild(vm, "creating"))
	if m.Creating != nil {
		creating := addOwn(vm, "creating")
		setAttr(creating, "owner", m.Creating.Owner)
		setAttr(creating, "spec", m.Creating.SpecHash)
		setAttr(creating, "since", m.Creating.Since.UTC().Format(time.RFC3339))
		if m.Creating.Started {
			setAttr(creating, "started", "yes")
		}
	}
	drop(ownChild(vm, "restarting"))
	if m.Restarting != nil {
		restarting := addOwn(vm, "restarting")
		setAttr(restarting, "owner", m.Restarting.Owner)
		setAttr(restarting, "since", m.Restarting.Since.UTC().Format(time.RFC3339))
		if m.Restarting.Forced {
			setAttr(restarting, "forced", "true")
		}
	}
	writeStarting(vm, m.Starting)
	writeDeleting(vm, m.Deleting)
	stagedList.write(vm, m.Staged)
	unfinishedList.write(vm, m.Unfinished)
	generation := ""
	if m.Generation > 0 {
		generation = strconv.FormatUint(m.Generation, 10)
	}
	setOwn(vm, "generation", generation)
	markOwn(vm, "fresh-nvram", m.FreshNVRAM)
	if !m.FreshNVRAM {
		m.VariablesOf = ""
	}
	setOwn(vm, "variables-of", m.VariablesOf)
	markOwn(vm, "dedicated-cpus", m.DedicatedCPUs)
	writeKeys(vm, "kept", "part", m.Kept)
	writeMigrations(vm, m.Migrations)
	writeCopies(vm, m.Copies)
	writeLeftVolumes(vm, m.LeftVolumes)
}

// sameMetadata reports whether both are written as the same XML: an empty map equals no map, and times have the
// precision that is written.
func sameMetadata(a, b Metadata) bool { return a.xml() == b.xml() }

// xml returns what write writes into a new element.
func (m Metadata) xml() string {
	vm := newMetadataElement()
	m.write(vm)
	return render(vm)
}

// recordedNames returns the keys of devices without our alias, as Metadata does.
func (d *Definition) recordedNames() map[string]string {
	if vm := d.metadataElement(); vm != nil && d.isOf(vm) {
		return deviceList.read(vm)
	}
	return nil
}

// setDeviceNames records the keys of devices without our alias.
func (d *Definition) setDeviceNames(names map[string]string) error {
	m := d.Metadata()
	m.Devices = names
	return d.SetMetadata(m)
}
