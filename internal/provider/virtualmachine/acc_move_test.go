package virtualmachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// movableVM is a VM whose disk and network both hosts reach.
func movableVM(t *testing.T, l *lab.Lab, name string) hcl {
	t.Helper()
	return guest(l, name).with(diskOnBothHosts(t, l, name)).with(hcl{
		"interfaces":  fmt.Sprintf("{ lan = { bridge = %q } }", lab.LANBridge),
		"guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "5m" }`,
		"labels": `{ app = "web" }`,
	})
}

// diskOnBothHosts is a disk that both hosts reach.
func diskOnBothHosts(t *testing.T, l *lab.Lab, name string) hcl {
	t.Helper()
	export := l.NBD(t, name, 16<<20)
	return hcl{"disks": fmt.Sprintf(`{ root = {
		network = { protocol = "nbd", name = %q, hosts = [%q] }, cache = "none", format = "raw"
	} }`, export.Name, export.Address())}
}

// scribble has a guest write to its disk, whose driver may be loaded after the agent answers. checksum tells what the
// disk holds, not what the guest remembers of it.
const (
	scribble = "until [ -b /dev/vda ]; do sleep 0.1; done; " +
		"dd if=/dev/urandom of=/dev/vda bs=64k seek=9 count=50 conv=fsync; "
	checksum = "sync; echo 3 >/proc/sys/vm/drop_caches; busybox md5sum </dev/vda"
)

// boots remembers which boot of a guest it was, and what it wrote to its disk.
type boots struct {
	l    *lab.Lab
	name string
	// disk says that it has one.
	disk        bool
	id, written string
}

// same expects that the guest on the host was never restarted, and reads from its disk what it wrote.
func (b *boots) same(t *testing.T, host string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		id := b.read(t, host)
		if b.id != "" && b.id != id {
			return fmt.Errorf("the guest was restarted: boot %s is now %s", b.id, id)
		}
		b.id = id
		if !b.disk {
			return nil
		}
		if b.written == "" {
			b.written = outputInGuest(t, b.l, host, b.name, scribble+checksum)
		}
		if read := outputInGuest(t, b.l, host, b.name, checksum); read != b.written || read == "" {
			return fmt.Errorf("the guest wrote %s and reads %s", b.written, read)
		}
		return nil
	}
}

func (b *boots) read(t *testing.T, host string) string {
	t.Helper()
	id := guestFile(t, b.l, host, b.name, "/proc/sys/kernel/random/boot_id")
	if id == "" {
		t.Fatal("the guest has no boot id")
	}
	return id
}

// guestFile is a file as the guest has it.
func guestFile(t *testing.T, l *lab.Lab, host, name, file string) string {
	t.Helper()
	l.AwaitAgent(t, host, name) // Who hasn't heard from it yet gives it no more than five seconds.
	ask := func(answer any, command string, a ...any) {
		t.Helper()
		out := l.Virsh(t, host, "qemu-agent-command", name, fmt.Sprintf(command, a...))
		if err := json.Unmarshal([]byte(out), answer); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	var opened struct{ Return int }
	ask(&opened, `{"execute":"guest-file-open","arguments":{"path":%q}}`, file)
	var read struct {
		Return struct {
			Content []byte `json:"buf-b64"`
		}
	}
	ask(&read, `{"execute":"guest-file-read","arguments":{"handle":%d}}`, opened.Return)
	ask(&struct{}{}, `{"execute":"guest-file-close","arguments":{"handle":%d}}`, opened.Return)
	return string(read.Return.Content)
}

// TestAccVirtualMachine_move: a change of host moves the running guest, which continues there, and everything that is
// known of it goes along.
func TestAccVirtualMachine_move(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	boot := &boots{l: l, name: name, disk: true}
	vm := movableVM(t, l, name)
	config := func(host string, more hcl) string {
		return providerBlock(l, "") + vm.with(hcl{"host": quote(host)}).with(more).String()
	}
	arrived := func(host string) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			know("current_host", exactly(host)), know("status", exactly("Running")), know("ready", knownvalue.Bool(true)),
			know("status_reason", exactly("Migrated")), know("location.stale_definitions", knownvalue.ListExact(nil)),
			know("location.host_uuid", exactly(l.Host(host).HostUUID)),
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("kvm1", nil), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: boot.same(t, "kvm1"),
	}, resource.TestStep{
		Config: config("kvm2", nil),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2")),
			planned("status", exactly("Running"))),
		ConfigStateChecks: arrived("kvm2"),
		Check: resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), boot.same(t, "kvm2"),
			look(t, l, "kvm2", name, "app", "<virtfleet:host>kvm2<", "ua-disk-root"), func(*terraform.State) error {
				return contains(l.Virsh(t, "kvm2", "dominfo", name), "Autostart:      enable")
			}),
	}, resource.TestStep{
		// Back, through the relay, and changed in the same apply.
		Config: config("kvm1", hcl{
			"labels": `{ app = "db" }`, "memory": `{ size = "96Mi" }`,
			"migration_options": `{ transport = "ssh_relay", parallel_connections = 2 }`,
		}),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm1"))),
		ConfigStateChecks: append(arrived("kvm1"), know("memory.size", exactly("96Mi"))),
		Check: resource.ComposeTestCheckFunc(onHosts(t, l, name, "running", ""), boot.same(t, "kvm1"),
			look(t, l, "kvm1", name, "db", `"ParallelConnections":2`)),
	}, resource.TestStep{
		// Off, it moves too.
		Config:           config("kvm1", hcl{"run_strategy": quote("Halted")}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
	}, resource.TestStep{
		Config: config("kvm2", hcl{"run_strategy": quote("Halted")}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2")),
			planned("status", exactly("Stopped"))),
		Check: onHosts(t, l, name, "", "shut off"),
	})
}

// providerBlock is a provider block with the addresses at which the hosts take migrations.
func providerBlock(l *lab.Lab, settings string, hosts ...*lab.Host) string {
	if hosts == nil {
		hosts = []*lab.Host{l.Host("kvm1"), l.Host("kvm2")}
	}
	block := acctest.Block{Lab: l, Settings: settings}
	for _, h := range hosts {
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: fmt.Sprintf("migration_address = %q", h.Address)})
	}
	return block.String()
}

// TestAccVirtualMachine_moveRefused: what blocks a move fails the plan, all of it, with what would lift it.
func TestAccVirtualMachine_moveRefused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	config := func(host, options string) string {
		return providerBlock(l, options) + idleVM(l, name).with(hcl{
			"host": quote(host), "disks": fmt.Sprintf("{ data = { volume = %q } }", image),
			"interfaces": `{ lan = { network = "default" } }`,
		}).String()
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("kvm1", ""), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
	}, resource.TestStep{
		Config: config("kvm2", ""),
		ExpectError: inOrder("DisksNotLiveMigratable", image, `pool "default" of host "kvm1"`, "network disk",
			"InterfaceNotLiveMigratable", `network "default" (open)`, "allow_network_change"),
	}, resource.TestStep{
		// What is allowed no longer blocks the move.
		Config:      config("kvm2", "migration_options = { allow_network_change = true }"),
		ExpectError: inOrder("DisksNotLiveMigratable"),
	}, resource.TestStep{
		Config: config("kvm1", ""), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		Check: onHosts(t, l, name, "running", ""),
	})
}

// TestAccVirtualMachine_moveAborted: a migration that can't converge is an error, and Ctrl-C aborts one within seconds.
// The guest continues where it was, with what it wrote to its disk, and the next plan is the move again. In post-copy
// Ctrl-C comes too late: a warning says where the VM is, and so does the state.
func TestAccVirtualMachine_moveAborted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(l, name, "dirty=16").with(talking).with(diskOnBothHosts(t, l, name)).with(hcl{
		"termination_grace_period": quote("0s"),
	})
	config := func(host, options string) {
		tf.Config(t, providerBlock(l, `migration_options = { bandwidth = "2Mi", `+options+` }`)+
			vm.with(hcl{"host": quote(host)}).String())
	}
	config("kvm1", "")
	tf.Run(t, "apply")
	boot := &boots{l: l, name: name, disk: true}
	unharmed := func(host string) {
		t.Helper()
		if err := boot.same(t, host)(nil); err != nil {
			t.Error(err)
		}
	}
	unharmed("kvm1")
	const late = `completion_timeout_per_gib = "2s"`
	for _, c := range []struct {
		what, options string
		end           func(*acctest.Running) error
		says          []string
	}{
		{"late", late, nil, []string{
			"Unable to move virtual machine", "took too long", `is on host "kvm1" (Running)`, "remained", "allow_post_copy",
		}},
		{"interrupted", "", (*acctest.Running).Interrupt, []string{
			"it was aborted", `is on host "kvm1" (Running)`, "Apply again to continue.",
		}},
	} {
		config("kvm2", c.options)
		expect(t, tf.Run(t, "plan", "-out=planned"), `current_host = "kvm1" -> "kvm2"`,
			"Plan: 0 to add, 1 to change, 0 to destroy.")
		apply := tf.Start(t, "apply", "planned")
		apply.AwaitCopying(t, l, "kvm1", name)
		began := time.Now()
		if c.end != nil {
			if err := c.end(apply); err != nil {
				t.Fatal(err)
			}
		}
		out, err := apply.Wait()
		if err == nil || time.Since(began) > 5*time.Minute || !inOrder(c.says...).MatchString(out) {
			t.Errorf("%s: ended after %v with %v:\n%s", c.what, time.Since(began), err, out)
		}
		awaitAlone(t, l, name)
		unharmed("kvm1")
	}

	config("kvm2", late+", allow_post_copy = true")
	interruptedInPostCopy(t, l, tf, name)
	unharmed("kvm2")
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// interruptedInPostCopy applies the move to kvm2, and interrupts it when the guest runs there.
func interruptedInPostCopy(t *testing.T, l *lab.Lab, tf *acctest.CLI, name string) {
	t.Helper()
	// Before it begins: once it has switched without a limit, it is over before the test sees that.
	l.Virsh(t, "kvm1", "migrate-setspeed", "--postcopy", name, "1")
	apply := tf.Start(t, "apply")
	lab.Await(t, "the guest to run on the target", func() bool {
		out, err := l.TryVirsh(t, "kvm1", "domstate", "--reason", name)
		return err == nil && strings.Contains(out, "post-copy")
	})
	if err := apply.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// What is left comes faster, though not before the provider has heard.
	lab.Await(t, "Terraform to hear", func() bool { return strings.Contains(apply.Output(), "Interrupt received") })
	l.Virsh(t, "kvm1", "migrate-setspeed", "--postcopy", name, "8")
	if out, _ := apply.Wait(); !inOrder("too far on to be aborted", `is now on host "kvm2"`).MatchString(out) {
		t.Errorf("the apply printed %s", out)
	}
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	if state, tainted := tf.State(t, address); tainted || state["current_host"] != "kvm2" {
		t.Errorf("tainted %v, state %v", tainted, state)
	}
}

// awaitAlone waits until the VM runs on the first host and nothing of it is on the second.
func awaitAlone(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	var err error
	lab.Await(t, "the VM to be where it was", func() bool {
		err = onHosts(t, l, name, "running", "")(nil)
		return err == nil
	})
}
