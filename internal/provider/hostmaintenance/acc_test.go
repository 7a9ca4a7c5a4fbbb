package hostmaintenance_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/hostmaintenance"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = hostmaintenance.TypeName + ".this"

// pair are two hosts that no other test uses: draining them disturbs none.
type pair struct {
	l        *lab.Lab
	from, to *lab.Host
	tf       *acctest.CLI
	// prefix begins the names of the VMs.
	prefix string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l := lab.Open(t)
	name := lab.Name(t)
	// The host that is drained is a hardened one.
	from, to := l.StartHostWithoutStreams(t), l.StartHost(t)
	return &pair{l: l, from: from, to: to, tf: acctest.NewCLI(t), prefix: "m" + name[len(name)-6:]}
}

// block is the provider's.
func (p *pair) block() string {
	return acctest.Block{Lab: p.l, Hosts: []acctest.Host{p.host(p.from), p.host(p.to)}}.String()
}

func (p *pair) host(h *lab.Host) acctest.Host {
	return acctest.Host{Of: h, Settings: fmt.Sprintf("migration_address = %q", h.Address)}
}

// defineVM is a VM on the first host whose disk both reach. One whose guest writes to its memory does so when this
// returns: as long as it boots it has little there, and is moved before anything can be done about it.
func (p *pair) defineVM(t *testing.T, name, words, more string) {
	t.Helper()
	full := p.prefix + "-" + name
	export := p.l.NBD(t, full, 16<<20)
	p.l.RemoveDomain(t, full)
	memory := 96
	if strings.Contains(words, "dirty=") {
		memory = 128 // Programs that come and go during the writing need room.
	}
	xml := fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">%d</memory><vcpu>1</vcpu>
		<os><type arch="x86_64">hvm</type><kernel>%s</kernel><initrd>%s</initrd><cmdline>%s noagent %s</cmdline></os>
		<features><acpi/></features>
		<devices><disk type="network" device="disk"><driver name="qemu" type="raw" cache="none"/>
			<source protocol="nbd" name="%s"><host name="%s" port="%d"/></source><target dev="vda" bus="virtio"/></disk>
		<serial type="file"><source path="%s"/></serial>%s</devices></domain>`, full, memory, p.l.KernelPath(),
		p.l.InitrdPath(), lab.GuestCmdline, words, export.Name, export.Host, export.Port, lab.ConsoleLog(full), more)
	p.l.Define(t, p.from.Name, xml)
	p.l.Virsh(t, p.from.Name, "start", full)
	if strings.Contains(words, "dirty=") {
		p.l.AwaitConsole(t, p.from.Name, full, lab.GuestWrites)
	}
}

// where is the host that the VM is active on, "" for none.
func (p *pair) where(t *testing.T, name string) string {
	t.Helper()
	for _, h := range []*lab.Host{p.from, p.to} {
		for _, active := range strings.Fields(p.l.Virsh(t, h.Name, "list", "--name")) {
			if active == p.prefix+"-"+name {
				return h.Name
			}
		}
	}
	return ""
}

func (p *pair) expect(t *testing.T, want map[string]string) {
	t.Helper()
	for name, host := range want {
		if is := p.where(t, name); is != host {
			t.Errorf("%s runs on %q, want %q", name, is, host)
		}
	}
}

func results(t *testing.T, tf *acctest.CLI) string {
	t.Helper()
	state, _ := tf.State(t, address)
	var all []string
	list, _ := state["results"].([]any)
	for _, r := range list {
		if one, ok := r.(map[string]any); ok {
			_, name, _ := strings.Cut(fmt.Sprint(one["name"]), "-")
			all = append(all, fmt.Sprintf("%s=%v", name, one["result"]))
		}
	}
	return strings.Join(all, " ")
}

// reasonOf is why a VM was not moved, as the state says.
func reasonOf(state map[string]any, name string) string {
	list, _ := state["results"].([]any)
	for _, r := range list {
		if one, ok := r.(map[string]any); ok && one["name"] == name && one["reason"] != nil {
			return fmt.Sprint(one["reason"])
		}
	}
	return ""
}

// unwrapped is what Terraform says, without the frame and the lines that it breaks it into.
func unwrapped(out string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)), " ")
}

func (p *pair) maintenance(more string) string {
	return fmt.Sprintf("resource \"virtfleet_host_maintenance\" \"this\" {\n  host = %q\n  %s\n}\n", p.from.Name, more)
}

// plan says how the first host would be drained.
func (p *pair) plan() string {
	return fmt.Sprintf("data \"virtfleet_evacuation_plan\" \"this\" {\n  host = %q\n}\n", p.from.Name)
}

// exactly has a maintenance follow that plan.
const exactly = "steps = data.virtfleet_evacuation_plan.this.steps\n  "

// policies are by the names of VMs.
func (p *pair) policies(strategies map[string]string) string {
	var b strings.Builder
	for name, strategy := range strategies {
		fmt.Fprintf(&b, "resource \"virtfleet_eviction_policy\" %q {\n  selector = { names = [%q] }\n  strategy = %s\n}\n",
			name, p.prefix+"-"+name, strategy)
	}
	return b.String()
}

// TestAccHostMaintenance: the plan shows how the host will be drained, apply does exactly that, the next plan is empty,
// even with the host switched off, and destroying brings everything back.
func TestAccHostMaintenance(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "live", "", "")
	p.defineVM(t, "none", "", "")
	for _, name := range []string{"fallback", "possible", "save"} {
		p.defineVM(t, name, "", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/>
			<target dev="vdb" bus="virtio"/></disk>`, p.l.Image(t, p.from.Name, p.prefix+"-"+name+".qcow2", "qcow2", 1<<20)))
	}
	policies := p.policies(map[string]string{
		"none": `"None"`, "save": "\"LiveMigrate\"\n  fallback = \"Save\"\n  priority = 7",
		"fallback": "\"LiveMigrate\"\n  fallback = \"Shutdown\"", "possible": `"LiveMigrateIfPossible"`,
	})
	plan := p.plan()
	steps := exactly + "restore = true\n  timeouts = { create = \"5m\" }"

	p.tf.Config(t, p.block()+policies)
	p.tf.Run(t, "apply")
	p.tf.Config(t, p.block()+policies+p.maintenance("restore = true"))
	out := p.tf.Run(t, "plan")
	for _, want := range []string{
		"Host will be drained", "1. " + p.prefix + "-save: is saved to the host's disk (LiveMigrate, policy ",
		"), because it can't migrate live: DisksNotLiveMigratable: disk \"vdb\" is file ",
		"2. " + p.prefix + "-fallback: is shut down (LiveMigrate, policy ",
		"3. " + p.prefix + "-live: moves to " + p.to.Name + " while it runs, 96Mi (LiveMigrateIfPossible, " +
			"the provider's default)",
		"4. " + p.prefix + "-none: is shut down (None, policy ",
		"5. " + p.prefix + "-possible: is shut down (LiveMigrateIfPossible, policy ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan doesn't say %q:\n%s", want, out)
		}
	}

	all := p.block() + policies + plan + p.maintenance(steps)
	p.tf.Config(t, all)
	p.tf.Run(t, "apply")
	state, _ := p.tf.State(t, address)
	if s := fmt.Sprint(state["steps"]); strings.Count(s, "blockers:[DisksNotLiveMigratable") != 3 {
		t.Errorf("the steps of three VMs don't say why they can't be moved: %s", s)
	}
	p.expect(t, map[string]string{"live": p.to.Name, "none": "", "save": ""})
	want := "save=Saved fallback=ShutDown live=Moved none=ShutDown possible=ShutDown"
	if got := results(t, p.tf); got != want {
		t.Errorf("results %s, want %s", got, want)
	}
	for _, name := range []string{"fallback", "none", "possible"} { // Their guests did it, they weren't killed.
		out := p.l.Virsh(t, p.from.Name, "domstate", "--reason", p.prefix+"-"+name)
		if got := strings.TrimSpace(out); got != "shut off (shutdown)" {
			t.Errorf("%s is %s", name, got)
		}
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("the plan after it isn't empty:\n%s", out)
	}
	if out := p.l.Virsh(t, p.to.Name, "dumpxml", p.prefix+"-live"); strings.Contains(out, "eviction-requested") {
		t.Errorf("the mark is left:\n%s", out)
	}

	// An administrator starts one of them.
	p.l.Virsh(t, p.from.Name, "start", p.prefix+"-none")
	if actions := p.tf.Actions(t); actions[address] != "update" {
		t.Errorf("a VM came: %v, want an update", actions)
	}
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"none": ""})
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("the plan after that isn't empty:\n%s", out)
	}

	// Whom the host refuses is told another reason from now on.
	p.tf.Config(t, p.block()+policies+plan+p.maintenance(steps+"\n  reason = \"CHG-1234\""))
	if actions := p.tf.Actions(t); actions[address] != "update" {
		t.Errorf("another reason: %v, want an update", actions)
	}
	p.tf.Run(t, "apply")
	if record := p.record(t); !strings.Contains(record, `"why":"CHG-1234"`) {
		t.Errorf("the host was not told the reason: %s", record)
	}
	p.expect(t, map[string]string{"live": p.to.Name, "none": "", "save": ""})
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("the plan with another reason isn't empty:\n%s", out)
	}

	p.endIsPlanned(t, all)
	p.tf.Config(t, p.block()+policies)
	p.planSaysHowItEnds(t, p.tf.Run(t, "apply"))
	for name, how := range map[string]string{
		"live": "migrated", "none": "booted", "save": "restored", "fallback": "booted", "possible": "booted",
	} {
		if got, want := p.howRuns(t, name), p.from.Name+" running ("+how+")"; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	p.tf.Run(t, "destroy")
	p.nothingLeft(t, "live", "none", "save", "fallback", "possible")
}

// endIsPlanned expects that the plan says what the end of the maintenance does, also where it is replaced: since it is
// tainted, or because another host is to be drained, from which no VM could leave.
func (p *pair) endIsPlanned(t *testing.T, config string) {
	t.Helper()
	p.tf.Run(t, "taint", address)
	out := p.tf.Run(t, "plan")
	p.tf.Run(t, "untaint", address)
	if !strings.Contains(unwrapped(out), "If this very plan ends it, and it has restore = true: ") {
		t.Errorf("the plan that replaces it doesn't say what its end may do: %s", out)
	}
	p.planSaysHowItEnds(t, out)
	from, to := fmt.Sprintf("host = %q", p.from.Name), fmt.Sprintf("host = %q", p.to.Name)
	p.tf.Config(t, strings.ReplaceAll(config, from, to))
	p.planSaysHowItEnds(t, p.tf.Fail(t, "plan"))
}

// planSaysHowItEnds expects that the plan says what becomes of each VM at the end of the maintenance.
func (p *pair) planSaysHowItEnds(t *testing.T, plan string) {
	t.Helper()
	back := fmt.Sprintf("host %q", p.from.Name)
	for name, want := range map[string]string{
		"live": "is moved back to " + back + " while it runs", "none": "is started on " + back,
		"save": "is resumed on " + back + " from its saved memory", "fallback": "is started on " + back,
	} {
		line := fmt.Sprintf("virtual machine %q %s", p.prefix+"-"+name, want)
		if !strings.Contains(unwrapped(plan), line) {
			t.Errorf("the plan doesn't say that %s %s:\n%s", name, want, plan)
		}
	}
}

// record is what is recorded on the first host.
func (p *pair) record(t *testing.T) string {
	t.Helper()
	uuid := p.l.SecretUUID(t, p.from.Name, "virtfleet:host-record")
	if uuid == "" {
		return ""
	}
	value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(p.l.Virsh(t, p.from.Name, "secret-get-value", uuid)))
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// TestAccHostMaintenance_refused: what blocks a drain fails the plan with every reason; steps that no longer hold stop
// the apply before anything is touched; a VM that its configuration pins is told of.
func TestAccHostMaintenance_refused(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "free", "", "")
	config := func(more string) { p.tf.Config(t, p.block()+more+p.maintenance(`timeouts = { create = "1m" }`)) }
	p.tf.Config(t, p.block()+p.plan()+p.maintenance(exactly))
	p.tf.Run(t, "plan", "-out=planned")

	p.defineVM(t, "disk", "", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/>
		<target dev="vdb" bus="virtio"/></disk>`, p.l.Image(t, p.from.Name, p.prefix+".qcow2", "qcow2", 1<<20)))
	// Each host has a network of its own of that name.
	p.defineVM(t, "nat", "", `<interface type="network"><source network="default"/><model type="virtio"/></interface>`)
	out := p.tf.Fail(t, "apply", "planned")
	if !strings.Contains(out, "no longer hold") || !strings.Contains(out, p.prefix+`-disk" has come`) ||
		!strings.Contains(out, p.prefix+`-nat" has come`) {
		t.Errorf("with a new VM: %s", out)
	}
	config("")
	out = p.tf.Fail(t, "plan")
	for _, want := range []string{
		"Host can't be drained", p.prefix + `-disk" (strategy LiveMigrateIfPossible of the provider): DisksNotLiveMigratable`,
		p.prefix + `-nat" (strategy LiveMigrateIfPossible of the provider): InterfaceNotLiveMigratable`, "set a fallback",
	} {
		if !strings.Contains(unwrapped(out), want) {
			t.Errorf("blocked: %q is missing in %s", want, out)
		}
	}
	p.expect(t, map[string]string{"free": p.from.Name, "disk": p.from.Name, "nat": p.from.Name})
	if out := p.l.Secrets(t, p.from.Name); strings.Contains(out, "virtfleet:") {
		t.Errorf("left on the host: %s", out)
	}
}

// crawling is a strategy whose migrations don't end by themselves: the guest always writes something in the time that
// it may be paused at the end.
const crawling = `"LiveMigrate"
  migration_options = {
    bandwidth = "2Mi", max_downtime = "1ms", completion_timeout_per_gib = "1h", progress_timeout = "1h"
  }`

// patience is how long a test waits for what should take seconds, on a computer that has other things to do.
const patience = 5 * time.Minute

// TestAccHostMaintenance_interrupted: Ctrl-C, and a provider that is killed, leave every VM running and the host
// cordoned; the next apply continues.
func TestAccHostMaintenance_interrupted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "quick", "", "")
	p.defineVM(t, "slow", "dirty=16 data", "")
	const after = "restore = true\n  depends_on = [virtfleet_eviction_policy.slow]"
	crawl := p.policies(map[string]string{"slow": crawling, "late": `"LiveMigrate"`})
	exact := p.plan() + p.maintenance(exactly+after)
	p.tf.Config(t, p.block()+crawl)
	p.tf.Run(t, "apply")

	for _, end := range []struct {
		how         func(*acctest.Running) error
		maintenance string
		tells       bool
	}{{(*acctest.Running).Kill, p.maintenance(after), false}, {(*acctest.Running).Interrupt, exact, true}} {
		p.tf.Config(t, p.block()+crawl+end.maintenance)
		apply := p.tf.Start(t, "apply")
		deadline := time.Now().Add(patience)
		for tick := time.NewTicker(200 * time.Millisecond); p.where(t, "quick") != p.to.Name || !p.copying(t); <-tick.C {
			select {
			case <-apply.Done():
				t.Fatalf("apply has ended: %s", apply.Output())
			default:
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing moves")
			}
		}
		began := time.Now()
		if err := end.how(apply); err != nil {
			t.Fatal(err)
		}
		out, err := apply.Wait()
		if err == nil || time.Since(began) > patience {
			t.Errorf("ended after %v with %v:\n%s", time.Since(began), err, out)
		}
		for _, want := range []string{
			"Unable to begin maintenance", "It was interrupted; host", "is cordoned and not drained", p.prefix + `-quick" Moved`,
			p.prefix + `-slow" (LiveMigration): `,
		} {
			if end.tells && !strings.Contains(unwrapped(out), want) {
				t.Errorf("%q is missing in what it says: %s", want, out)
			}
		}
		p.expect(t, map[string]string{"quick": p.to.Name, "slow": p.from.Name})
		p.l.AwaitData(t, p.from.Name, p.prefix+"-slow")
		p.awaitNoJob(t) // What is seen to be copied next is of the next apply.
		_ = os.Remove(p.tf.Dir + "/.terraform.tfstate.lock.info")
	}
	if out := p.l.Virsh(t, p.from.Name, "dumpxml", p.prefix+"-slow"); strings.Contains(out, "eviction-requested") {
		t.Errorf("the mark is left:\n%s", out)
	}
	if state, tainted := p.tf.State(t, address); !tainted || state["drained"] != false {
		t.Errorf("state %v, tainted %v", state, tainted)
	} else if got := results(t, p.tf); !strings.Contains(got, "quick=Moved") || !strings.Contains(got, "slow=Failed") ||
		reasonOf(state, p.prefix+"-slow") == "" {
		t.Errorf("results %s, and slow failed because of %q", got, reasonOf(state, p.prefix+"-slow"))
	}
	p.tf.Config(t, p.block()+crawl+p.maintenance(after))
	p.planOfRest(t)
	p.tf.Config(t, p.block()+p.policies(map[string]string{"slow": `"LiveMigrate"`})+exact)
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"quick": p.to.Name, "slow": p.to.Name})
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"quick": p.from.Name, "slow": p.from.Name})
}

// planOfRest expects that the plan of a drain which was interrupted says what is left of it, and fails because of a
// VM that has come since and can't leave, by the policy that was there before it.
func (p *pair) planOfRest(t *testing.T) {
	t.Helper()
	if out := p.tf.Run(t, "plan"); !strings.Contains(out, "1. "+p.prefix+"-slow: moves to "+p.to.Name) ||
		strings.Contains(out, p.prefix+"-quick: ") {
		t.Errorf("the plan doesn't say what is left:\n%s", out)
	}
	p.defineVM(t, "late", "", fmt.Sprintf(`<disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/>
		<target dev="vdb" bus="virtio"/></disk>`, p.l.Image(t, p.from.Name, p.prefix+".qcow2", "qcow2", 1<<20)))
	out := unwrapped(p.tf.Fail(t, "plan"))
	for _, want := range []string{
		"Host can't be drained", p.prefix + `-late" (strategy LiveMigrate of policy`, "DisksNotLiveMigratable",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in the plan: %s", want, out)
		}
	}
	p.l.Virsh(t, p.from.Name, "destroy", p.prefix+"-late")
	p.l.Virsh(t, p.from.Name, "undefine", p.prefix+"-late")
}

// TestAccHostMaintenance_finished: Ctrl-C while the last VM is on its way, which its policy says to finish.
// Terraform waits for it, and the host is empty then: nothing is left to do.
func TestAccHostMaintenance_finished(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "slow", "dirty=16", "")
	crawl := p.policies(map[string]string{"slow": crawling + "\n  on_cancel = \"finish\""})
	p.tf.Config(t, p.block()+crawl)
	p.tf.Run(t, "apply")
	p.tf.Config(t, p.block()+crawl+p.maintenance(""))
	apply := p.tf.Start(t, "apply")
	p.awaitCopying(t, apply)
	if err := apply.Interrupt(); err != nil {
		t.Fatal(err)
	}
	p.hurry(t, apply)
	p.expect(t, map[string]string{"slow": p.to.Name})
	state, tainted := p.tf.State(t, address)
	if got := results(t, p.tf); tainted || state["drained"] != true || got != "slow=Moved" {
		t.Errorf("state %v, tainted %v, results %s:\n%s", state, tainted, got, apply.Output())
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.nothingLeft(t, "slow")
}

// copying tells whether the slow VM's memory is on its way.
func (p *pair) copying(t *testing.T) bool {
	t.Helper()
	return p.l.Copying(t, p.from.Name, p.prefix+"-slow")
}

// awaitNoJob waits until the host has given up moving the slow VM, which it notices after whoever was killed.
func (p *pair) awaitNoJob(t *testing.T) {
	t.Helper()
	lab.Await(t, "the host to give the migration up", func() bool { return !p.copying(t) })
}

// TestAccHostMaintenance_managedVM: a VM whose own strategy has it shut down, and one that is saved, stay so
// as long as the maintenance lasts, whatever their run strategy, also while their host is off, and are started by the
// next apply after it.
func TestAccHostMaintenance_managedVM(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	policies := p.policies(map[string]string{"saved": "\"LiveMigrate\"\n  fallback = \"Save\""})
	machines := func(more string) string {
		small := "memory = { size = \"64Mi\" }\n  " + more + "\n  "
		return policies + p.managed(t, "managed", small+"eviction_strategy = \"None\"") +
			// Each host has a network of its own of that name.
			p.managed(t, "saved", small+`eviction_strategy = "LiveMigrate"
				interfaces = { nat = { network = "default" } }`)
	}
	second := p.host(p.to)
	second.Settings += "\n      schedulable = false"
	p.tf.Config(t, acctest.Block{Lab: p.l, Hosts: []acctest.Host{p.host(p.from), second}}.String()+machines(""))
	p.tf.Run(t, "apply")
	p.tf.Config(t, p.block()+machines("")+p.maintenance(""))
	out := p.tf.Run(t, "apply")
	for _, want := range []string{
		p.prefix + "-managed: is shut down (None, its own)",
		p.prefix + "-saved: is saved to the host's disk (LiveMigrate, its own)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan doesn't say %q:\n%s", want, out)
		}
	}
	evicted := map[string]string{"managed": "", "saved": ""}
	p.expect(t, evicted)
	if out := p.l.Virsh(t, p.from.Name, "domstate", "--reason", p.prefix+"-saved"); !strings.Contains(out, "(saved)") {
		t.Errorf("it is %s", out)
	}
	if out, empty := p.tf.Empty(t); !empty || !strings.Contains(out, "Virtual machine is off for a maintenance") {
		t.Errorf("the plan after it: empty %v\n%s", empty, out)
	}
	// Of several warnings of a kind Terraform shows the first.
	out, empty := p.tf.Empty(t, "-target=virtfleet_virtual_machine.saved")
	if want := fmt.Sprintf("%q should run, but it was shut down or saved", p.prefix+"-saved"); !empty ||
		!strings.Contains(unwrapped(out), want) {
		t.Errorf("the plan of the saved one: empty %v\n%s", empty, out)
	}
	p.pluggedOut(t, p.block()+machines("")+p.plan()+p.maintenance(""))
	p.expect(t, evicted) // The host has booted, and not started them.
	// Another change doesn't start them either.
	p.tf.Config(t, p.block()+machines(`labels = { app = "web" }`)+p.maintenance(""))
	p.tf.Run(t, "apply")
	p.expect(t, evicted)
	p.tf.Config(t, p.block()+machines(`labels = { app = "web" }`))
	p.tf.Run(t, "apply")
	for _, name := range []string{"managed", "saved"} {
		if actions := p.tf.Actions(t); actions["virtfleet_virtual_machine."+name] != "update" {
			t.Errorf("after the maintenance %s: %v, want an update", name, actions)
		}
	}
	p.tf.Run(t, "apply")
	for name, how := range map[string]string{"managed": "booted", "saved": "restored"} {
		if got, want := p.howRuns(t, name), p.from.Name+" running ("+how+")"; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("the last plan isn't empty:\n%s", out)
	}
	p.tf.Run(t, "destroy")
}

// pluggedOut expects that plans keep working while the first host has no power: nothing there even refuses a
// connection.
func (p *pair) pluggedOut(t *testing.T, config string) {
	t.Helper()
	powerOn := p.l.PowerOff(t, p.from)
	p.tf.Config(t, config)
	began := time.Now()
	if out, empty := p.tf.Empty(t); !empty || !strings.Contains(out, "may be switched off") {
		t.Errorf("the plan with the host off: empty %v\n%s", empty, out)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("the plan with the host off took %s", took)
	}
	// What the apply couldn't do isn't planned.
	for _, args := range [][]string{
		{"-destroy", "-target=virtfleet_virtual_machine.managed"}, {"-replace=virtfleet_virtual_machine.managed"},
	} {
		out := unwrapped(p.tf.Fail(t, append([]string{"plan"}, args...)...))
		for _, want := range []string{"does not answer", "Switch it on, then plan again", "move_stopped"} {
			if !strings.Contains(out, want) {
				t.Errorf("the plan %v with the host off doesn't say %q:\n%s", args, want, out)
			}
		}
	}
	powerOn()
}
