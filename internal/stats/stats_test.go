package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func sample(at int, params libvirt.StatsParams) *Sample {
	s := New(libvirt.DomainStats{UUID: "u", Params: params}, time.Unix(int64(at), 0))
	return &s
}

func TestNew_whatIsntReportedIsNil(t *testing.T) {
	t.Parallel()
	s := sample(1, libvirt.StatsParams{"state.state": int64(5), "vcpu.current": uint64(1), "vcpu.maximum": uint64(2)})
	if s.CPU != nil || s.Memory != nil || s.Disks != nil || s.Interfaces != nil || s.Perf != nil {
		t.Errorf("got %v", s)
	}
	s = sample(1, libvirt.StatsParams{"balloon.current": uint64(1024), "balloon.last-update": uint64(0)})
	if *s.Memory.Current != 1<<20 || s.Memory.Usable != nil || s.Memory.LastUpdate != nil {
		t.Errorf("got %v", s.Memory)
	}
}

func TestNew_units(t *testing.T) {
	t.Parallel()
	s := sample(1, libvirt.StatsParams{
		"cpu.time": uint64(2e9), "vcpu.current": uint64(1), "vcpu.maximum": uint64(3),
		"vcpu.2.state": int64(1), "vcpu.2.time": uint64(1e9), "vcpu.2.delay": uint64(5e8), "vcpu.2.halted": false,
		"balloon.rss": uint64(2), "balloon.swap_in": uint64(3), "balloon.last-update": uint64(60),
		"block.count": uint64(1), "block.0.name": "vda", "block.0.rd.times": uint64(7), "block.0.capacity": uint64(9),
		"block.0.errors": uint64(5), "net.count": uint64(2), "net.1.name": "vnet3", "net.1.rx.bytes": uint64(11),
		"perf.cpu_cycles": uint64(13),
	})
	s.SetKeys(map[string]string{"vdb": "data"}, []string{"user", "lan"})
	want := &Sample{
		At: time.Unix(1, 0), UUID: "u",
		CPU: &CPU{
			Total: new(2 * time.Second), Online: new(uint64(1)), Maximum: new(uint64(3)),
			VCPUs: []VCPU{{
				ID: 2, State: "running", Time: new(time.Second), Delay: new(time.Second / 2), Halted: new(false),
			}},
		},
		Memory: &Memory{
			Resident: new(uint64(2048)), SwapIn: new(uint64(3072)), LastUpdate: new(time.Unix(60, 0).UTC()),
		},
		Disks: []Disk{{
			Key: "vda", Target: "vda", ReadTime: new(time.Duration(7)), Errors: new(uint64(5)), Capacity: new(uint64(9)),
		}},
		Interfaces: []Interface{{Index: 1, Key: "lan", Device: "vnet3", ReceivedBytes: new(uint64(11))}},
		Perf:       map[string]uint64{"cpu_cycles": 13},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	params := func(cpu, vcpu, read, reads, readTime, received uint64) libvirt.StatsParams {
		return libvirt.StatsParams{
			"cpu.time": cpu, "vcpu.maximum": uint64(1), "vcpu.0.state": int64(1), "vcpu.0.time": vcpu,
			"block.count": uint64(1), "block.0.name": "vda", "block.0.rd.bytes": read, "block.0.rd.reqs": reads,
			"block.0.rd.times": readTime, "net.count": uint64(1), "net.0.name": "vnet0", "net.0.rx.bytes": received,
		}
	}
	before := sample(10, params(1e9, 1e9, 100, 10, 1000, 50))
	got := Between(before, sample(12, params(2e9, 15e8, 300, 14, 1400, 40)))
	want := &Rates{
		Elapsed: 2 * time.Second, CPUPercent: new(50.0), GuestPercent: new(25.0),
		VCPUs: map[int]VCPURates{0: {Percent: new(25.0)}},
		Disks: map[string]DiskRates{"vda": {
			ReadBytes: new(100.0), ReadRequests: new(2.0), ReadLatency: new(100 * time.Nanosecond),
		}},
		// The counter of the interface began anew: no rate rather than a huge or negative one.
		Interfaces: map[string]InterfaceRates{"vnet0": {}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if Between(before, before) != nil || Between(sample(12, nil), before) != nil || Between(nil, before) != nil {
		t.Error("rates without time")
	}
	off := Between(before, sample(12, libvirt.StatsParams{}))
	if off.CPUPercent != nil || len(off.Disks) != 0 {
		t.Errorf("got %v for a VM that stopped", off)
	}
}
