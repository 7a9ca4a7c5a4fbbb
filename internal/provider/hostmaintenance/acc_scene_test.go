package hostmaintenance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// scene is a host with VMs of every kind, and two others with little room.
type scene struct {
	*pair
	other *lab.Host
	// image is a disk in a file of the first host, liveDisk and coldDisk are disks that every host reaches.
	image              string
	liveDisk, coldDisk *lab.Export
}

func newScene(t *testing.T) *scene {
	t.Helper()
	p := newPair(t)
	s := &scene{pair: p, other: p.l.StartHost(t)}
	s.liveDisk, s.coldDisk = s.written(t, "live"), s.written(t, "cold")
	s.image = p.l.Image(t, p.from.Name, p.prefix+".qcow2", "qcow2", 4<<20)
	p.l.Run(t, p.from.Name, "qemu-io", "-f", "qcow2", "-c", "write -P 0xa5 0 3M", s.image)
	return s
}

// limit is how many MiB may be committed to VMs on the host.
func (s *scene) limit(h *lab.Host) int {
	return map[string]int{s.from.Name: 4096, s.to.Name: 600, s.other.Name: 450}[h.Name]
}

// withinLimits fails the test when the VMs that run on a host have more memory together than it may give away.
func (s *scene) withinLimits(t *testing.T) {
	t.Helper()
	for _, h := range []*lab.Host{s.to, s.other} {
		sum := 0
		for _, name := range strings.Fields(s.l.Virsh(t, h.Name, "list", "--name")) {
			_, rest, _ := strings.Cut(s.l.Virsh(t, h.Name, "dominfo", name), "Max memory:")
			kib := 0
			if _, err := fmt.Sscanf(rest, "%d KiB", &kib); err != nil {
				t.Fatal(err)
			}
			sum += kib
		}
		if limit := s.limit(h); sum == 0 || sum > limit<<10 {
			t.Errorf("host %s may give %d MiB to VMs, and has %d KiB of them", h.Name, limit, sum)
		}
	}
}

// copiedPost fails the test unless the last move of the VM that writes to its memory ended in post-copy: what it
// writes is more than could be copied in the time that it had.
func (s *scene) copiedPost(t *testing.T) {
	t.Helper()
	host := strings.Fields(s.is(t, "dirty"))[0]
	out := s.l.Virsh(t, host, "metadata", s.prefix+"-dirty", "urn:virtfleet:1")
	if last := out[max(0, strings.LastIndex(out, "<migration ")):]; !strings.Contains(last, `mode="PostCopy"`) {
		t.Errorf("how it was moved: %s", out)
	}
}

// block is the provider's. As long as the two others take nothing, all VMs begin on the first host.
func (s *scene) block(begin bool) string {
	b := acctest.Block{Lab: s.l}
	for _, h := range []*lab.Host{s.from, s.to, s.other} {
		one := s.host(h)
		one.Settings += fmt.Sprintf("\n      memory_limit = \"%dMi\"\n      overcommit_guest_overhead = true\n      "+
			"schedulable = %t", s.limit(h),
			!begin || h == s.from)
		b.Hosts = append(b.Hosts, one)
	}
	return b.String()
}

// written is a disk with known content that every host reaches.
func (s *scene) written(t *testing.T, name string) *lab.Export {
	t.Helper()
	export := s.l.NBD(t, s.prefix+"-"+name+"-data", 4<<20)
	s.content(t, export, "write")
	return export
}

// contents fails the test unless all disks have what was written to them.
func (s *scene) contents(t *testing.T) {
	t.Helper()
	s.content(t, s.liveDisk, "read")
	s.content(t, s.coldDisk, "read")
	s.l.Run(t, s.from.Name, "qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 0xa5 0 3M", s.image)
}

// content writes the known content, or fails the test unless it is what is read.
func (s *scene) content(t *testing.T, export *lab.Export, command string) {
	t.Helper()
	s.l.Run(t, s.other.Name, "qemu-io", "-f", "raw", "-c", command+" -P 0xa5 0 3M",
		fmt.Sprintf("nbd://%s/%s", export.Address(), export.Name))
}

// nbdDisk is a further disk of a domain, nbdBlock the same of a configuration.
func nbdDisk(e *lab.Export) string {
	return fmt.Sprintf(`<disk type="network" device="disk"><driver name="qemu" type="raw" cache="none"/>
		<source protocol="nbd" name="%s"><host name="%s" port="%d"/></source><target dev="vdc" bus="virtio"/></disk>`,
		e.Name, e.Host, e.Port)
}

func nbdBlock(e *lab.Export) string {
	return fmt.Sprintf("disks = { data = { network = { protocol = \"nbd\", name = %q, hosts = [%q] }, "+
		"cache = \"none\" } }", e.Name, e.Address())
}

// is says what virsh says of a VM: "kvm2 running (migrated)".
func (s *scene) is(t *testing.T, name string) string {
	t.Helper()
	var all []string
	for _, h := range []*lab.Host{s.from, s.to, s.other} {
		if out, err := s.l.TryVirsh(t, h.Name, "domstate", "--reason", s.prefix+"-"+name); err == nil {
			all = append(all, h.Name+" "+strings.TrimSpace(out))
		}
	}
	return strings.Join(all, ", ")
}

// moveWhenAsked is whoever is in charge of the external one: it moves it once it is marked.
func (s *scene) moveWhenAsked(ctx context.Context, name string) error {
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		xml, err := s.from.Virsh(ctx, "dumpxml", name)
		if err != nil {
			return err
		}
		if strings.Contains(xml, "eviction-requested") {
			return s.from.Migrate(ctx, name, s.other)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unmanaged are the VMs that aren't managed with Terraform.
func (s *scene) unmanaged(t *testing.T) {
	t.Helper()
	s.defineVM(t, "live", "", nbdDisk(s.liveDisk))
	s.defineVM(t, "dirty", "dirty=16@32", "") // Four times what its policy lets through.
	s.defineVM(t, "none", "", "")
	s.defineVM(t, "saved", "", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/>
		<target dev="vdb" bus="virtio"/></disk>`, s.image))
	for _, name := range []string{"paused", "stopped", "plain"} {
		s.l.RemoveDomain(t, s.prefix+"-"+name)
		s.l.Define(t, s.from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s-%s</name><memory unit="MiB">32</memory>
			<os><type arch="x86_64">hvm</type></os></domain>`, s.prefix, name))
		if name != "stopped" {
			s.l.Virsh(t, s.from.Name, "start", s.prefix+"-"+name)
		}
	}
	s.l.Virsh(t, s.from.Name, "suspend", s.prefix+"-paused")
}

// configured are the other VMs, one of them with that setting, and the policies.
func (s *scene) configured(t *testing.T, pin string) string {
	t.Helper()
	const small = `memory = { size = "32Mi" }` + "\n  "
	return s.managed(t, "cold", small+`interfaces = { nat = { network = "default" } }`+"\n  "+nbdBlock(s.coldDisk)) +
		s.managed(t, "external", small+`eviction_strategy = "External"`) +
		s.managed(t, "pinned", small+pin) +
		s.managed(t, "shy", small+`placement = { anti_affinity = { labels = { app = "web" }, required = true } }`) +
		s.managed(t, "large", `memory = { size = "512Mi" }`) +
		s.managed(t, "neighbour", small+`labels = { app = "web" }`+"\n  "+fmt.Sprintf("host = %q", s.to.Name)) +
		s.policies(map[string]string{
			"saved": "\"LiveMigrate\"\n  fallback = \"Save\"", "none": `"None"`,
			"cold": "\"LiveMigrate\"\n  fallback = \"ColdMigrate\"",
			"dirty": "\"LiveMigrate\"\n  priority = 5\n  migration_options = " +
				`{ bandwidth = "8Mi", completion_timeout_per_gib = "20s", allow_post_copy = true }`,
		})
}

// planned checks what the plan says of each VM.
func (s *scene) planned(t *testing.T, plan string) {
	t.Helper()
	for name, want := range map[string]string{
		"live": "moves to %s while it runs, 96Mi (LiveMigrateIfPossible, the provider's default)", "saved": "is saved to",
		"dirty": "moves to %s while it runs, 128Mi (LiveMigrate, policy", "none": "is shut down (None, policy",
		"paused": "moves to %s while", "plain": "moves to %s while", "external": "(External, its own)",
		"large": "moves to " + s.to.Name + " while it runs, 512Mi", "shy": "moves to " + s.other.Name + " while it runs",
		"cold": "(LiveMigrate, policy", "pinned": "Pinned: its host attribute pins it to host", "stopped": "off",
	} {
		_, line, _ := strings.Cut(plan, ". "+s.prefix+"-"+name+": ")
		line = line[:min(len(line), 150)]
		if !strings.Contains(line, strings.ReplaceAll(want, "%s", s.to.Name)) &&
			!strings.Contains(line, strings.ReplaceAll(want, "%s", s.other.Name)) {
			t.Errorf("of %s the plan says %q, want %q", name, line, want)
		}
	}
	if !strings.Contains(plan, "Virtual machine is pinned to the host") ||
		!strings.Contains(plan, "1. "+s.prefix+"-dirty") {
		t.Errorf("no warning, or another order: %s", plan)
	}
}

// TestAccHostMaintenance_everyKind: twelve VMs, each of another kind, and as many ways to leave. What the plan
// says is what happens; no guest is restarted that needn't be, no disk changes; the one that is pinned stays until it
// isn't. The end of the maintenance brings all back that it has moved, the way that each went.
func TestAccHostMaintenance_everyKind(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.unmanaged(t)
	pinned := s.configured(t, fmt.Sprintf("host = %q", s.from.Name))
	s.tf.Config(t, s.block(true)+pinned)
	s.tf.Run(t, "apply")

	after := "depends_on = [virtfleet_virtual_machine.pinned]\n  restore = true\n  timeouts = { create = \"9m\" }"
	s.tf.Config(t, s.block(false)+pinned+s.maintenance(after))
	s.planned(t, s.tf.Run(t, "plan"))

	moved := make(chan error, 1)
	go func() { moved <- s.moveWhenAsked(t.Context(), s.prefix+"-external") }()
	out := s.tf.Fail(t, "apply")
	if err := <-moved; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out, s.prefix+`-pinned" (Pinned)`) || strings.Count(out, "not done are") != 1 ||
		strings.Contains(out, "it has come meanwhile") {
		t.Errorf("it says: %s", out)
	}
	s.coldForcedOff(t, out, s.from)
	if state, _ := s.tf.State(t, address); !strings.Contains(reasonOf(state, s.prefix+"-cold"), "forced off") {
		t.Errorf("the state doesn't tell that cold was forced off: %v", state["results"])
	}
	s.left(t, results(t, s.tf), "Failed")
	s.copiedPost(t)
	s.withinLimits(t)
	if got := s.is(t, "pinned"); got != s.from.Name+" running (booted)" {
		t.Errorf("pinned is %s", got)
	}

	free := s.configured(t, "")
	s.tf.Config(t, s.block(false)+free+s.maintenance(after))
	if out := s.tf.Run(t, "apply"); strings.Contains(out, "Warning: Virtual machine was forced off") {
		t.Errorf("it warns again of a guest that an earlier apply forced off: %s", out)
	}
	s.left(t, results(t, s.tf), "Moved")
	s.withinLimits(t)
	if got := s.is(t, "pinned"); !strings.HasSuffix(got, " running (migrated)") || strings.HasPrefix(got, s.from.Name) {
		t.Errorf("unpinned is %s", got)
	}
	s.contents(t)
	if out, empty := s.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}

	coldWas := s.is(t, "cold")
	s.tf.Config(t, s.block(false)+free)
	out = s.tf.Run(t, "apply")
	s.endIsPlanned(t, out)
	for _, h := range []*lab.Host{s.to, s.other} {
		if strings.HasPrefix(coldWas, h.Name+" ") {
			s.coldForcedOff(t, out, h)
		}
	}
	s.back(t)
	s.contents(t)
	if out, empty := s.tf.Empty(t); !empty {
		t.Errorf("left to do after the maintenance:\n%s", out)
	}
	s.tf.Run(t, "destroy")
	for _, h := range []*lab.Host{s.from, s.to, s.other} {
		if out := s.l.Secrets(t, h.Name); strings.Contains(out, "virtfleet:") {
			t.Errorf("left on host %s: %s", h.Name, out)
		}
	}
}

// coldForcedOff fails the test unless the output warns that the guest that has no time to shut down was forced off on
// that host, and says what to do.
func (s *scene) coldForcedOff(t *testing.T, out string, h *lab.Host) {
	t.Helper()
	_, warning, warned := strings.Cut(unwrapped(out), "Warning: Virtual machine was forced off ")
	for _, want := range []string{
		fmt.Sprintf("Virtual machine %q on host %q was destroyed", s.prefix+"-cold", h.Name),
		"raise termination_grace_period",
	} {
		if !warned || !strings.Contains(warning, want) {
			t.Errorf("it doesn't warn of the guest that was forced off, with %q: %s", want, out)
		}
	}
}

// What virsh says behind the name of the host.
const (
	migrated, postCopy, booted = " running (migrated)", " running (post-copy)", " running (booted)"
	paused, restored, off      = " paused (user)", " running (restored)", " shut off"
)

// left checks where every VM is, and what the state says of it.
func (s *scene) left(t *testing.T, results, pinned string) {
	t.Helper()
	from, to, other := s.from.Name, s.to.Name, s.other.Name
	for name, want := range map[string]struct {
		result string
		is     []string
	}{
		"live":     {"Moved", []string{to + migrated, other + migrated}},
		"dirty":    {"Moved", []string{to + migrated, other + migrated, to + postCopy, other + postCopy}},
		"plain":    {"Moved", []string{to + migrated, other + migrated}},
		"large":    {"Moved", []string{to + migrated}},
		"shy":      {"Moved", []string{other + migrated}},
		"external": {"Moved", []string{other + migrated}},
		"paused":   {"Moved", []string{to + paused, other + paused}},
		"cold":     {"ColdMoved", []string{to + booted, other + booted}},
		"none":     {"ShutDown", []string{from + off + " (shutdown)"}},
		"saved":    {"Saved", []string{from + off + " (saved)"}},
		"stopped":  {"Left", []string{from + off + " (unknown)"}},
		"pinned":   {pinned, nil},
	} {
		if want.is != nil {
			s.oneOf(t, name, want.is...)
		}
		if !strings.Contains(" "+results+" ", " "+name+"="+want.result+" ") {
			t.Errorf("%s: want %s in %s", name, want.result, results)
		}
	}
}

// endIsPlanned checks what the plan says of each VM at the end of the maintenance.
func (s *scene) endIsPlanned(t *testing.T, plan string) {
	t.Helper()
	from := fmt.Sprintf("host %q", s.from.Name)
	for name, want := range map[string]string{
		"live": "is moved back to " + from + " while it runs", "dirty": "is moved back to " + from + " while it runs",
		"cold": "is shut down, moved back to " + from + ", and started there", "none": "is started on " + from,
		"saved": "is resumed on " + from, "stopped": "", "external": "", "neighbour": "",
	} {
		line := fmt.Sprintf("virtual machine %q %s", s.prefix+"-"+name, want)
		if strings.Contains(unwrapped(plan), line) != (want != "") {
			t.Errorf("of %s the plan should say %q:\n%s", name, want, plan)
		}
	}
}

// back checks where every VM is after the maintenance: where it was, and running if it ran. The one that another tool
// has moved is left to them.
func (s *scene) back(t *testing.T) {
	t.Helper()
	from := s.from.Name
	for name, is := range map[string][]string{
		"live": {from + migrated}, "plain": {from + migrated}, "large": {from + migrated}, "shy": {from + migrated},
		"pinned": {from + migrated}, "dirty": {from + migrated, from + postCopy}, "paused": {from + paused},
		"cold": {from + booted}, "none": {from + booted}, "saved": {from + restored}, "stopped": {from + off + " (unknown)"},
		"external": {s.other.Name + migrated}, "neighbour": {s.to.Name + booted},
	} {
		s.oneOf(t, name, is...)
	}
}

// oneOf fails the test unless virsh says one of these of the VM.
func (s *scene) oneOf(t *testing.T, name string, is ...string) {
	t.Helper()
	if got := s.is(t, name); !slices.Contains(is, got) {
		t.Errorf("%s: %s, want %s", name, got, strings.Join(is, " or "))
	}
}
