package stats

import (
	"strconv"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Groups are the groups of statistics that a Sample requires. The dirty rate isn't among them: it is measured on
// request, see DirtyRate.
const Groups = libvirt.StatsState | libvirt.StatsCPU | libvirt.StatsBalloon | libvirt.StatsVCPU |
	libvirt.StatsInterface | libvirt.StatsBlock | libvirt.StatsPerf

// Sample are the counters of one VM at one moment. Values that weren't reported are nil: all but the state while the VM
// doesn't run, and those that its hypervisor, its balloon or its guest doesn't provide. Counters begin at the start of
// the VM on its current host.
type Sample struct {
	// At is when the host answered, by the local clock.
	At         time.Time
	UUID, Name string
	State      libvirt.DomainState
	Reason     string
	// Busy is that of libvirt.DomainStats: only the state could be read.
	Busy       bool
	CPU        *CPU
	Memory     *Memory
	Disks      []Disk
	Interfaces []Interface
	// Perf are the counters of the perf events that are enabled in the definition, by their names.
	Perf map[string]uint64
}

// CPU is the time that the host's processors spent on the VM.
type CPU struct {
	// Total is all of it; User and System are the shares of the hypervisor process itself.
	Total, User, System *time.Duration
	// Online and Maximum are numbers of virtual CPUs.
	Online, Maximum *uint64
	VCPUs           []VCPU
}

// VCPU is one virtual CPU that is online.
type VCPU struct {
	ID int
	// State is "offline", "running" or "blocked", "" if it wasn't reported.
	State string
	// Time is how long it ran, Wait how long it waited for I/O, Delay how long it was ready to run but waited for a
	// processor of the host.
	Time, Wait, Delay *time.Duration
	Halted            *bool
}

// Memory is memory in bytes. The guest's own numbers come from the driver of its balloon, as of LastUpdate; without a
// statistics period in the definition the driver is never asked.
type Memory struct {
	// Current is the balloon's size, Maximum the size up to which it may grow.
	Current, Maximum *uint64
	// Resident is the resident memory of the hypervisor process on the host.
	Resident *uint64
	// Available is the memory that the guest has, Unused what it leaves unused, Usable what it could free without
	// swapping, DiskCaches its disk caches.
	Available, Unused, Usable, DiskCaches *uint64
	// SwapIn and SwapOut count bytes since the guest started, the faults count pages.
	SwapIn, SwapOut, MajorFaults, MinorFaults *uint64
	HugePageAllocations, HugePageFailures     *uint64
	LastUpdate                                *time.Time
}

// Disk is one disk.
type Disk struct {
	// Key is the disk's name for users, Target its name in the definition, such as "vda".
	Key, Target string
	// Path is its source: a file or device, "" for other kinds.
	Path                                   string
	ReadRequests, WriteRequests, Flushes   *uint64
	ReadBytes, WriteBytes                  *uint64
	ReadTime, WriteTime, FlushTime         *time.Duration
	Errors, Allocation, Capacity, Physical *uint64
	// Threshold is the offset at which libvirt sends an event.
	Threshold *uint64
}

// Interface is one network interface that has a device on the host. Received is what the guest received.
type Interface struct {
	// Index is its position among the interfaces of the definition, Key its name for users, Device the host's name for it,
	// such as "vnet3".
	Index       int
	Key, Device string

	ReceivedBytes, ReceivedPackets, ReceiveErrors, ReceiveDrops         *uint64
	TransmittedBytes, TransmittedPackets, TransmitErrors, TransmitDrops *uint64
}

// New creates a sample from what the host reported at that time.
func New(d libvirt.DomainStats, at time.Time) Sample {
	s := Sample{
		At: at, UUID: d.UUID, Name: d.Name, State: d.State, Reason: d.Reason, Busy: d.Busy,
		CPU: newCPU(d.Params), Memory: newMemory(d.Params),
	}
	for i := range readCount(d.Params, "block.count") {
		if disk, ok := newDisk(d.Params, "block."+strconv.Itoa(i)+"."); ok {
			s.Disks = append(s.Disks, disk)
		}
	}
	for i := range readCount(d.Params, "net.count") {
		if nic, ok := newInterface(d.Params, i); ok {
			s.Interfaces = append(s.Interfaces, nic)
		}
	}
	for name := range d.Params {
		if event, isPerf := strings.CutPrefix(name, "perf."); isPerf {
			if n := d.Params.Uint(name); n != nil {
				if s.Perf == nil {
					s.Perf = map[string]uint64{}
				}
				s.Perf[event] = *n
			}
		}
	}
	return s
}

// SetKeys sets the keys of the devices: of disks by their targets, of interfaces by their positions in the definition.
// A device that isn't among them keeps its other name.
func (s *Sample) SetKeys(disks map[string]string, interfaces []string) {
	for i := range s.Disks {
		if key, ok := disks[s.Disks[i].Target]; ok {
			s.Disks[i].Key = key
		}
	}
	for i := range s.Interfaces {
		if at := s.Interfaces[i].Index; at < len(interfaces) {
			s.Interfaces[i].Key = interfaces[at]
		}
	}
}

func newCPU(p libvirt.StatsParams) *CPU {
	c := CPU{
		Total: nanoseconds(p, "cpu.time"), User: nanoseconds(p, "cpu.user"), System: nanoseconds(p, "cpu.system"),
		Online: p.Uint("vcpu.current"), Maximum: p.Uint("vcpu.maximum"),
	}
	// Virtual CPUs in between may be offline; only those that are online are listed.
	for i := range readCount(p, "vcpu.maximum") {
		prefix := "vcpu." + strconv.Itoa(i) + "."
		state := p.Uint(prefix + "state")
		if state == nil {
			continue
		}
		c.VCPUs = append(c.VCPUs, VCPU{
			ID: i, State: vcpuState(*state), Halted: p.Bool(prefix + "halted"),
			Time: nanoseconds(p, prefix+"time"), Wait: nanoseconds(p, prefix+"wait"), Delay: nanoseconds(p, prefix+"delay"),
		})
	}
	if c.Total == nil && c.VCPUs == nil {
		return nil
	}
	return &c
}

// vcpuState names virVcpuState's numbers.
func vcpuState(n uint64) string {
	switch n {
	case 0:
		return "offline"
	case 1:
		return "running"
	case 2:
		return "blocked"
	default:
		return ""
	}
}

func newMemory(p libvirt.StatsParams) *Memory {
	m := Memory{
		Current: kibibytes(p, "balloon.current"), Maximum: kibibytes(p, "balloon.maximum"),
		Resident: kibibytes(p, "balloon.rss"), Available: kibibytes(p, "balloon.available"),
		Unused: kibibytes(p, "balloon.unused"), Usable: kibibytes(p, "balloon.usable"),
		DiskCaches: kibibytes(p, "balloon.disk_caches"),
		SwapIn:     kibibytes(p, "balloon.swap_in"), SwapOut: kibibytes(p, "balloon.swap_out"),
		MajorFaults: p.Uint("balloon.major_fault"), MinorFaults: p.Uint("balloon.minor_fault"),
		HugePageAllocations: p.Uint("balloon.hugetlb_pgalloc"), HugePageFailures: p.Uint("balloon.hugetlb_pgfail"),
	}
	// 0 means that the guest's driver never answered.
	if at := p.Uint("balloon.last-update"); at != nil && *at > 0 {
		m.LastUpdate = new(time.Unix(int64(*at), 0).UTC()) //nolint:gosec // seconds since 1970
	}
	if m == (Memory{}) {
		return nil
	}
	return &m
}

func newDisk(p libvirt.StatsParams, prefix string) (Disk, bool) {
	d := Disk{
		Target: p.Text(prefix + "name"), Path: p.Text(prefix + "path"),
		ReadRequests: p.Uint(prefix + "rd.reqs"), WriteRequests: p.Uint(prefix + "wr.reqs"),
		Flushes:   p.Uint(prefix + "fl.reqs"),
		ReadBytes: p.Uint(prefix + "rd.bytes"), WriteBytes: p.Uint(prefix + "wr.bytes"),
		ReadTime: nanoseconds(p, prefix+"rd.times"), WriteTime: nanoseconds(p, prefix+"wr.times"),
		FlushTime: nanoseconds(p, prefix+"fl.times"),
		Errors:    p.Uint(prefix + "errors"), Allocation: p.Uint(prefix + "allocation"),
		Capacity: p.Uint(prefix + "capacity"), Physical: p.Uint(prefix + "physical"),
		Threshold: p.Uint(prefix + "threshold"),
	}
	d.Key = d.Target
	return d, d.Target != ""
}

func newInterface(p libvirt.StatsParams, index int) (Interface, bool) {
	prefix := "net." + strconv.Itoa(index) + "."
	i := Interface{
		Index: index, Device: p.Text(prefix + "name"),
		ReceivedBytes: p.Uint(prefix + "rx.bytes"), ReceivedPackets: p.Uint(prefix + "rx.pkts"),
		ReceiveErrors: p.Uint(prefix + "rx.errs"), ReceiveDrops: p.Uint(prefix + "rx.drop"),
		TransmittedBytes: p.Uint(prefix + "tx.bytes"), TransmittedPackets: p.Uint(prefix + "tx.pkts"),
		TransmitErrors: p.Uint(prefix + "tx.errs"), TransmitDrops: p.Uint(prefix + "tx.drop"),
	}
	i.Key = i.Device
	return i, i.Device != ""
}

// readCount reads a count, limited to what a VM can have.
func readCount(p libvirt.StatsParams, name string) int {
	n := p.Uint(name)
	if n == nil {
		return 0
	}
	return int(min(*n, 4096)) //nolint:gosec // bounded
}

func kibibytes(p libvirt.StatsParams, name string) *uint64 {
	n := p.Uint(name)
	if n == nil {
		return nil
	}
	return new(*n << 10)
}

func nanoseconds(p libvirt.StatsParams, name string) *time.Duration {
	n := p.Uint(name)
	if n == nil {
		return nil
	}
	return new(time.Duration(*n)) //nolint:gosec // 292 years fit
}
