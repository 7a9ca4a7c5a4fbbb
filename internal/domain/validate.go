package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is a problem of one attribute.
type Problem struct {
	// Path is the attribute's path, as in disks.data.cache.
	Path string
	// Message is a sentence for the user.
	Message string
}

// Error makes a Problem an error.
func (p Problem) Error() string { return p.Path + ": " + p.Message }

// The values that attributes can have. The unusual ones are here because VMs defined by other tools have them.
var (
	DomainTypes   = []string{"kvm", "qemu"}
	CPUModes      = []string{"host-model", "host-passthrough", "maximum", "custom"}
	FirmwareTypes = []string{"bios", "efi"}
	DiskDevices   = []string{"disk", "cdrom", "lun", "floppy"}
	DiskBuses     = []string{"virtio", "scsi", "sata", "usb", "ide", "fdc", "sd", "xen", "nvme"}
	DiskCaches    = []string{"default", "none", "writethrough", "writeback", "directsync", "unsafe"}
	DiskFormats   = []string{
		"raw", "qcow2", "qcow", "qed", "vmdk", "vdi", "vpc", "ploop", "bochs", "cloop", "dmg", "iso", "dir", "fat",
	}
	DiskProtocols = []string{
		"nbd", "rbd", "iscsi", "gluster", "ssh", "nfs", "http", "https", "ftp", "ftps", "tftp", "sheepdog", "vxhs",
	}
	InterfaceModels = []string{
		"virtio", "e1000e", "e1000", "igb", "rtl8139", "vmxnet3", "virtio-transitional", "virtio-non-transitional",
		"e1000-82544gc", "e1000-82545em", "pcnet", "ne2k_isa", "ne2k_pci", "tulip", "i82550", "i82551", "i82557a", "i82557b",
		"i82557c", "i82558a", "i82558b", "i82559a", "i82559b", "i82559c", "i82559er", "i82562", "i82801", "usb-net",
		"spapr-vlan", "lan9118",
	}
)

const (
	// maxNameLength leaves room for what libvirt appends to the name in file names, which have at most 255 bytes.
	maxNameLength = 200
	// maxVCPUs is also KubeVirt's limit. Machine types of QEMU 7.2 support 288 to 1024.
	maxVCPUs = 512
	// minMemory is the least memory with which QEMU's current machine types start.
	minMemory = mib
	// virtioSerialLength is the length of VIRTIO_BLK_ID_BYTES. QEMU truncates longer serial numbers.
	virtioSerialLength = 20
)

// keyPattern matches the aliases that libvirt keeps. It drops others without an error.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// filterVariable matches the name of a variable of a network filter.
var filterVariable = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// checker collects problems.
type checker struct {
	problems []Problem
	// orders maps the boot orders declared so far to their devices.
	orders map[int]string
}

func (c *checker) require(ok bool, path, message string) {
	if !ok {
		c.problems = append(c.problems, Problem{path, message})
	}
}

// faultless reports whether these attributes have no problem so far, so that others can be compared with them.
func (c *checker) faultless(paths ...string) bool {
	return !slices.ContainsFunc(c.problems, func(p Problem) bool { return slices.Contains(paths, p.Path) })
}

// oneOf checks a declared value against a list.
func (c *checker) oneOf(value, path string, values []string) {
	if value != "" && !slices.Contains(values, value) {
		c.require(false, path, fmt.Sprintf("%q isn't one of %s.", value, strings.Join(values, ", ")))
	}
}

// Readable reports whether a text can be part of a definition: XML can't represent most control characters.
func Readable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF'
	})
}

func (c *checker) readable(path, text string) {
	if !Readable(text) {
		c.require(false, path, fmt.Sprintf("%q has a character that can't be written in a definition.", text))
	}
}

// hostPath checks a path on the host.
func (c *checker) hostPath(path, file string) {
	switch {
	case file == "":
		return
	case !strings.HasPrefix(file, "/"):
		c.require(false, path, fmt.Sprintf("%q isn't an absolute path on the host.", file))
	case strings.TrimSpace(file) != file:
		c.require(false, path, fmt.Sprintf("%q ends with white space.", file))
	}
	c.readable(path, file)
}

func (c *checker) bootOrder(path string, order *int) {
	if order == nil {
		return
	}
	path += ".boot_order"
	c.require(*order >= 0, path, "Boot orders count from 1; 0 is none.")
	if *order == 0 {
		return
	}
	c.require(c.orders[*order] == "", path, "The same boot order is declared by "+c.orders[*order]+".")
	c.orders[*order] = path
}

func (c CPU) validate(check *checker) {
	for _, count := range []struct {
		path string
		n    *int
	}{
		{"cpu.vcpus", c.VCPUs},
		{"cpu.sockets", c.Sockets},
		{"cpu.cores", c.Cores},
		{"cpu.threads", c.Threads},
		{"cpu.max_sockets", c.MaxSockets},
	} {
		check.require(count.n == nil || *count.n >= 1 && *count.n <= maxVCPUs, count.path,
			fmt.Sprintf("%d isn't a number from 1 to %d.", pick(count.n, nil, 0), maxVCPUs))
	}
	one := 1
	perSocket := pick(c.Cores, &one, 1) * pick(c.Threads, &one, 1)
	if c.VCPUs != nil && c.Sockets != nil {
		ok := *c.VCPUs == *c.Sockets*perSocket
		// Cores and threads that aren't declared are the VM's own.
		check.require(ok || c.Cores == nil || c.Threads == nil, "cpu.vcpus", fmt.Sprintf(
			"%d isn't sockets x cores x threads, %d.", *c.VCPUs, *c.Sockets*perSocket))
	}
	if c.MaxSockets != nil && c.Sockets != nil && check.faultless("cpu.sockets") {
		check.require(*c.MaxSockets >= *c.Sockets, "cpu.max_sockets", "The maximum is less than the sockets.")
	}
	if check.faultless("cpu.sockets", "cpu.cores", "cpu.threads", "cpu.max_sockets") {
		check.require(pick(c.MaxSockets, c.Sockets, 1)*perSocket <= maxVCPUs, "cpu",
			"A VM can have at most "+strconv.Itoa(maxVCPUs)+" virtual CPUs.")
	}
	if c.Mode != nil {
		if check.oneOf(*c.Mode, "cpu.mode", CPUModes); !check.faultless("cpu.mode") {
			return // Whether it accepts a model isn't known.
		}
	}
	custom := pick(c.Mode, nil, "custom") == "custom"
	check.require(custom || c.Model == nil, "cpu.model", `A model can be declared with the mode "custom" only.`)
	check.require(c.Mode == nil || !custom || c.Model != nil, "cpu.model", `The mode "custom" needs a model.`)
	model := pick(c.Model, nil, "")
	check.require(strings.TrimSpace(model) == model, "cpu.model",
		fmt.Sprintf("%q begins or ends with white space.", model))
	check.readable("cpu.model", model)
}

func (m Memory) validate(c *checker) {
	for _, amount := range []struct {
		path  string
		bytes *uint64
	}{{"memory.size", m.Size}, {"memory.max_size", m.MaxSize}} {
		if amount.bytes == nil || amount.bytes == m.MaxSize && *m.MaxSize == 0 {
			continue
		}
		n := *amount.bytes
		c.require(n >= minMemory, amount.path, fmt.Sprintf(
			"A VM needs at least 1Mi, and this is %d bytes. Write a size with its unit, such as \"2Gi\".", n))
		c.require(n < minMemory || n%mib == 0, amount.path, fmt.Sprintf(
			"Memory is given out in units of 1Mi, and QEMU rounds other sizes. The nearest are %dMi and %dMi.", n/mib, n/mib+1))
	}
	if m.Size != nil && m.MaxSize != nil && *m.MaxSize > 0 {
		c.require(*m.MaxSize >= *m.Size, "memory.max_size", "The maximum is less than the size.")
	}
}

func validateFirmware(s Spec, c *checker) {
	if s.Firmware.Type != nil {
		c.oneOf(*s.Firmware.Type, "firmware.type", FirmwareTypes)
	}
	if !pick(s.Firmware.SecureBoot, nil, false) {
		return
	}
	path := "firmware.secure_boot"
	c.require(pick(s.Firmware.Type, nil, "efi") == "efi", path, `Secure boot needs the firmware type "efi".`)
	pc := slices.Contains([]string{"", "x86_64", "i686"}, s.Arch)
	c.require(!pc || s.Machine == "" || machineFamily(s.Machine) == "q35", path,
		`Secure boot needs the machine type "q35".`)
}

func validateDisks(c *checker, all map[string]Disk) {
	for _, key := range sortedKeys(all) {
		all[key].validate(c, key)
	}
}

func validateKernel(s Spec, c *checker) {
	if s.Kernel == nil {
		return
	}
	c.require(*s.Kernel == (Kernel{}) || s.Kernel.Path != "", "kernel.path", "An initrd or a command line needs a kernel.")
	c.hostPath("kernel.path", s.Kernel.Path)
	c.hostPath("kernel.initrd", s.Kernel.Initrd)
	c.readable("kernel.cmdline", s.Kernel.Cmdline)
}

// validate checks one disk.
func (d Disk) validate(c *checker, key string) {
	path := "disks." + key
	c.require(keyPattern.MatchString(key), path, `Keys consist of letters, digits, "-" and "_".`)
	c.oneOf(d.Device, path+".device", DiskDevices)
	c.oneOf(d.Bus, path+".bus", DiskBuses)
	c.oneOf(d.Format, path+".format", DiskFormats)
	c.oneOf(d.Cache, path+".cache", DiskCaches)
	sources := 0
	for _, set := range []bool{d.Source.File != "", d.Source.Block != "", d.Source.Network != nil, d.Source.Other != ""} {
		if set {
			sources++
		}
	}
	c.require(sources <= 1, path, "A disk has one source.")
	c.require(sources > 0 || d.removable(), path,
		"A disk needs a source: file, block, volume, network or pool. Only a cdrom or floppy can be empty.")
	if d.Source.Network != nil {
		d.Source.Network.validate(c, path+".network")
	}
	for _, source := range []struct{ name, file string }{{"file", d.Source.File}, {"block", d.Source.Block}} {
		c.hostPath(path+"."+source.name, source.file)
	}
	d.checkCombination(c, path)
	d.checkRows(c, path)
}

// checkCombination checks which values don't fit together, as far as they are declared or known.
func (d Disk) checkCombination(c *checker, path string) {
	c.require(d.Device != "cdrom" || !slices.Contains([]string{"virtio", "fdc", "sd"}, d.Bus), path+".bus",
		"A CD-ROM drive can be on the buses sata, scsi, usb and ide.")
	c.require((d.Device == "floppy") == (d.Bus == "fdc") || d.Bus == "" || d.Device == "", path+".bus",
		"Floppy drives, and nothing else, are on the bus fdc.")
	c.require(d.Device != "lun" || slices.Contains([]string{"", "scsi", "virtio"}, d.Bus), path+".bus",
		"A lun can be on the bus scsi.")
	c.require(d.Device != "lun" ||
		d.Source.File == "" && (d.Source.Network == nil || d.Source.Network.Protocol == "iscsi"),
		path+"."+d.Source.kind(), "A lun is a block device, of the host or by iscsi.")
	c.require(d.Source.Network == nil || d.Device == "cdrom" || pick(d.ReadOnly, nil, false) ||
		!slices.Contains(readOnlyProtocols, d.Source.Network.Protocol), path+".read_only",
		"A disk from a web or file server is only read: declare read_only, or the device cdrom.")
	c.require(d.Device != "cdrom" || pick(d.ReadOnly, nil, true), path+".read_only", "A CD-ROM is read-only.")
	c.require(d.Device != "" && d.Device != "disk" || !pick(d.ReadOnly, nil, false) ||
		!slices.Contains([]string{"sata", "ide"}, d.Bus), path+".read_only", "Disks on sata and ide can't be read-only.")
	c.readable(path+".serial", pick(d.Serial, nil, ""))
	c.require(d.Bus != "sd" || pick(d.Serial, nil, "") == "", path+".serial", "SD cards have no serial.")
	c.require(len(pick(d.Serial, nil, "")) <= virtioSerialLength || d.Bus != "virtio" && d.Bus != "", path+".serial",
		"On virtio the guest sees 20 characters only.")
}

func (n NetworkSource) validate(c *checker, path string) {
	c.oneOf(n.Protocol, path+".protocol", DiskProtocols)
	c.require(n.Protocol != "", path+".protocol", "It must be declared.")
	c.require(n.Name != "" || n.Protocol == "nbd", path+".name", "It must be declared.")
	c.readable(path+".name", n.Name)
	c.require(len(n.Hosts) > 0 || n.Protocol == "rbd", path+".hosts", "At least one host must be declared.")
	for _, host := range n.Hosts {
		_, ok := parseHost(host)
		c.require(ok, path+".hosts", fmt.Sprintf("%q isn't host:port.", host))
		c.readable(path+".hosts", host)
	}
	if n.Auth != nil {
		n.Auth.validate(c, path+".auth", n.Protocol)
	}
	n.checkRows(c, path)
}

func validateInterfaces(c *checker, all map[string]Interface) {
	for _, key := range sortedKeys(all) {
		all[key].validate(c, key)
	}
}

// SharedMACs returns a problem for each address that several interfaces have. Only VMs defined by other tools may have
// such addresses.
func (s Spec) SharedMACs() []Problem {
	sharing := map[string][]string{}
	for _, key := range sortedKeys(s.Interfaces) {
		nic := s.Interfaces[key]
		// A device of the host and another interface form a pair, as in virtio's failover.
		if mac := strings.ToLower(nic.MAC); mac != "" && !nic.mayShareMAC() {
			sharing[mac] = append(sharing[mac], key)
		}
	}
	var shared []Problem
	for _, mac := range sortedKeys(sharing) {
		if keys := sharing[mac]; len(keys) > 1 {
			shared = append(shared, Problem{
				"interfaces." + keys[len(keys)-1] + ".mac",
				fmt.Sprintf("The interfaces %s have the same address %s.", strings.Join(keys, " and "), mac),
			})
		}
	}
	return shared
}

// validate checks one interface.
func (i Interface) validate(c *checker, key string) {
	path := "interfaces." + key
	c.require(keyPattern.MatchString(key), path, `Keys consist of letters, digits, "-" and "_".`)
	c.require(len(i.attributes()) <= 1, path, "An interface has only one of "+interfaceKinds+".")
	c.require(i.connected(), path, "An interface needs one of "+interfaceKinds+".")
	i.checkRows(c, path)
	c.readable(path+".direct.device", i.Direct)
	c.require(len(i.Direct) <= 15, path+".direct.device", "Names of Linux devices have at most 15 characters.")
	c.oneOf(i.DirectMode, path+".direct.mode", DirectModes)
	c.require(i.Direct == "" || i.DirectMode != "", path+".direct.mode", "It needs a mode.")
	c.require(i.HostDevice == "" || hostAddressPatterns["pci"].MatchString(i.HostDevice), path+".hostdev",
		`It isn't a PCI address such as 0000:03:00.1, in small letters.`)
	c.require(i.HostDevice == "" || i.Model == "", path+".model", "The guest sees the device of the host as it is.")
	c.require(!i.onlyVirtio() || hasDriver("", i.Model), path+".model", needsVirtio)
	for name, file := range map[string]string{".vdpa": i.VDPA, ".vhostuser.path": i.VHostUser} {
		c.require(file == "" || absolute(file) == "", path+name, absolute(file))
	}
	c.oneOf(i.VHostUserMode, path+".vhostuser.mode", VHostUserModes)
	c.require(i.VHostUser == "" || i.VHostUserMode != "", path+".vhostuser.mode", "It needs a mode.")
	if i.Other == "" {
		c.oneOf(i.Model, path+".model", InterfaceModels)
	}
	c.readable(path+".network", i.Network)
	c.readable(path+".bridge", i.Bridge)
	c.require(len(i.Bridge) <= 15, path+".bridge", "Names of Linux devices have at most 15 characters.")
	if i.MAC == "" {
		return
	}
	ok := macPattern.MatchString(i.MAC)
	c.require(ok, path+".mac", fmt.Sprintf("%q isn't a MAC address such as 52:54:00:12:34:56.", i.MAC))
	c.require(!ok || !isGroupMAC(i.MAC), path+".mac", fmt.Sprintf(
		"%q is an address for groups: the last bit of its first byte is set.", i.MAC))
}
