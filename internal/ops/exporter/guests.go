package exporter

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// guestsAtOnce is how many guests of a host are queried in parallel: an agent that doesn't answer occupies one of the
	// daemon's workers.
	guestsAtOnce = 2
	// guestTimeout is how long a guest agent may take. A working agent answers within milliseconds.
	guestTimeout = 5 * time.Second
	// silence is how many intervals pass before a guest that didn't answer is queried again, and how many intervals an
	// answer is used.
	silence = 5
	// maxFilesystems limits the series of one guest.
	maxFilesystems = 64
)

var (
	fsCapacity = gauge("kubevirt_vmi_filesystem_capacity_bytes", "Total VM filesystem capacity in bytes.")
	fsUsed     = gauge("kubevirt_vmi_filesystem_used_bytes", "Used VM filesystem capacity in bytes.")
)

// guests queries guest agents in the background. A scrape passes the present VMs and reads the last answers: it never
// waits for a guest.
type guests struct {
	every time.Duration // 0 is never
	work  sync.WaitGroup

	mu    sync.Mutex
	known map[string]guestFacts // by UUID
	asked map[string]bool       // hosts whose guests are being queried
}

// guestFacts is an agent's last answer.
type guestFacts struct {
	host string
	info *libvirt.GuestInfo
	// at is when the agent answered, due when it is queried again.
	at, due time.Time
}

func newGuests(every time.Duration) *guests {
	return &guests{every: every, known: map[string]guestFacts{}, asked: map[string]bool{}}
}

// infoOf returns the last answer of a guest, nil if there is none.
func (g *guests) infoOf(uuid string) *libvirt.GuestInfo {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.known[uuid]; time.Since(f.at) < silence*g.every {
		return f.info
	}
	return nil
}

// refreshInfo queries the agents that are due, until ctx ends, and forgets VMs that are gone. It keeps what the VMs of
// silent hosts have reported, and when they are to be queried again: a host may miss a single scrape.
func (g *guests) refreshInfo(ctx context.Context, all []observe.Sample, silent map[string]bool) {
	if g.every <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	due := map[string][]*fleet.VM{}
	before := g.known
	g.known = make(map[string]guestFacts, len(before))
	for uuid, facts := range before {
		if silent[facts.host] {
			g.known[uuid] = facts
		}
	}
	for _, m := range all {
		facts, known := before[m.VM.UUID]
		if known {
			facts.host = m.VM.Host
			g.known[m.VM.UUID] = facts
		}
		answers := m.VM.AgentConnected && m.VM.State == libvirt.Running && !m.Stats.Busy
		if answers && !time.Now().Before(facts.due) {
			due[m.VM.Host] = append(due[m.VM.Host], m.VM)
		}
	}
	for host, vms := range due {
		if g.asked[host] {
			continue
		}
		g.asked[host] = true
		g.work.Go(func() { g.askHost(ctx, host, vms) })
	}
}

func (g *guests) askHost(ctx context.Context, host string, vms []*fleet.VM) {
	var questions errgroup.Group
	questions.SetLimit(guestsAtOnce)
	for _, vm := range vms {
		questions.Go(func() error {
			if ctx.Err() == nil {
				g.askAgent(ctx, vm)
			}
			return nil
		})
	}
	_ = questions.Wait() // none of the functions returns an error
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, host)
}

// askAgent queries one guest. If it doesn't answer, the last answer is kept until it is too old.
func (g *guests) askAgent(ctx context.Context, vm *fleet.VM) {
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	info, err := vm.Conn().GuestInfo(ctx, vm.UUID, libvirt.GuestOSInfo|libvirt.GuestFilesystems)
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		facts := g.known[vm.UUID]
		facts.host, facts.due = vm.Host, now.Add(silence*g.every)
		g.known[vm.UUID] = facts
		return
	}
	g.known[vm.UUID] = guestFacts{host: vm.Host, info: info, at: now, due: now.Add(g.every)}
}

// addFilesystems adds the filesystems that a guest reported.
func (f *families) addFilesystems(info *libvirt.GuestInfo, l labels) {
	if info == nil {
		return
	}
	seen := map[string]bool{}
	for _, fs := range info.Filesystems {
		// If several filesystems are mounted at the same place, the guest reports the uppermost first.
		if seen[fs.MountPoint] || len(seen) == maxFilesystems {
			continue
		}
		seen[fs.MountPoint] = true
		of := l.with("disk_name", fs.Name, "mount_point", fs.MountPoint, "file_system_type", fs.Type)
		f.add(fsCapacity, countValue(func(fs libvirt.GuestFilesystem) *uint64 { return fs.TotalBytes })(fs), of)
		f.add(fsUsed, countValue(func(fs libvirt.GuestFilesystem) *uint64 { return fs.UsedBytes })(fs), of)
	}
}
