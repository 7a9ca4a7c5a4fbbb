package virtualmachine_test

import (
	"encoding/json"
	"errors"
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

// scribble has a guest write to its disk, checksum tells what the disk holds, not what the guest remembers of it.
const (
	scribble = "dd if=/dev/urandom of=/dev/vda bs=64k seek=9 count=50 conv=fsync; "
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

// TestAccVirtualMachine_move: a change of host moves the running guest, which goes on there, and everything that is
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
			know("status_reason", exactly("Migrated")), know("stale_definitions", knownvalue.ListExact(nil)),
			know("current_host_uuid", exactly(l.Host(host).HostUUID)),
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
			"InterfaceNotLiveMigratable", `network "default" (nat)`, "allow_network_change"),
	}, resource.TestStep{
		// What is allowed no longer blocks the move.
		Config:      config("kvm2", "migration_options = { allow_network_change = true }"),
		ExpectError: inOrder("DisksNotLiveMigratable"),
	}, resource.TestStep{
		Config: config("kvm1", ""), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		Check: onHosts(t, l, name, "running", ""),
	})
}

// TestAccVirtualMachine_moveFails: a migration that can't converge is an error, the guest goes on where it was, and the
// next plan is the move again.
func TestAccVirtualMachine_moveFails(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	boot, disk := &boots{l: l, name: name, disk: true}, diskOnBothHosts(t, l, name)
	config := func(host, options string) string {
		return providerBlock(l, `migration_options = { bandwidth = "2Mi", completion_timeout_per_gib = "2s" }`) +
			vmWithKernelWords(l, name, "dirty=16").with(talking).with(disk).with(hcl{
				"host": quote(host), "termination_grace_period": quote("0s"), "migration_options": options,
			}).String()
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("kvm1", ""), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: boot.same(t, "kvm1"),
	}, resource.TestStep{
		Config: config("kvm2", ""),
		ExpectError: inOrder("Unable to move virtual machine", "took too long", `is on host "kvm1" (Running)`, "remained",
			"allow_post_copy"),
	}, resource.TestStep{
		PreConfig: func() {
			if err := errors.Join(onHosts(t, l, name, "running", "")(nil), boot.same(t, "kvm1")(nil)); err != nil {
				t.Error(err)
			}
		},
		Config:           config("kvm2", `{ allow_post_copy = true, bandwidth = "64Mi" }`),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate, planned("current_host", exactly("kvm2"))),
		Check:            resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), boot.same(t, "kvm2")),
	})
}

// TestAccVirtualMachine_moveInterrupted: Ctrl-C aborts a migration within seconds; whatever becomes of the provider,
// the guest goes on where it was, with what it wrote to its disk, and the next apply moves it.
func TestAccVirtualMachine_moveInterrupted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(l, name, "dirty=16").with(talking).with(diskOnBothHosts(t, l, name)).with(hcl{
		"termination_grace_period": quote("0s"),
	})
	config := func(host, options string) {
		tf.Config(t, providerBlock(l, options)+vm.with(hcl{"host": quote(host)}).String())
	}
	config("kvm1", "")
	tf.Run(t, "apply")
	t.Cleanup(func() { tf.Run(t, "destroy") })
	boot := &boots{l: l, name: name, disk: true}
	unharmed := func(host string) {
		t.Helper()
		if err := boot.same(t, host)(nil); err != nil {
			t.Error(err)
		}
	}
	unharmed("kvm1")
	left := func() {
		t.Helper()
		expect(t, tf.Run(t, "plan", "-out=planned"), `current_host = "kvm1" -> "kvm2"`,
			"Plan: 0 to add, 1 to change, 0 to destroy.")
	}
	for what, end := range map[string]func(*acctest.Running) error{
		"interrupted": (*acctest.Running).Interrupt, "killed": (*acctest.Running).Kill,
	} {
		config("kvm2", `migration_options = { bandwidth = "2Mi" }`)
		left()
		apply := tf.Start(t, "apply", "planned")
		awaitCopying(t, l, "kvm1", name, apply)
		began := time.Now()
		if err := end(apply); err != nil {
			t.Fatal(err)
		}
		out, err := apply.Wait()
		if err == nil || time.Since(began) > time.Minute {
			t.Errorf("%s: ended after %v with %v:\n%s", what, time.Since(began), err, out)
		}
		if what == "interrupted" && !inOrder("it was aborted", `is on host "kvm1" (Running)`).MatchString(out) {
			t.Errorf("%s: %s", what, out)
		}
		awaitAlone(t, l, name)
		unharmed("kvm1")
	}
	config("kvm2", "")
	left()
	tf.Run(t, "apply", "planned")
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	unharmed("kvm2")
	if left := tf.Actions(t); len(left) > 0 && left[address] != "no-op" {
		t.Errorf("left to do: %v", left)
	}
}

// TestAccVirtualMachine_stranded: the source loses its connection while the last memory is copied, and the provider is
// killed before it notices. The guest stands still then, and libvirt lets it go on nowhere. Plans tell, and apply lets
// it go on.
func TestAccVirtualMachine_stranded(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	from, to := l.StartHost(t), l.StartHost(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := vmWithKernelWords(l, name, "dirty=16").with(talking).with(diskOnBothHosts(t, l, name)).with(hcl{
		"termination_grace_period": quote("0s"),
	})
	boot := &boots{l: l, name: name, disk: true}
	config := func(host *lab.Host, options string) {
		tf.Config(t, providerBlock(l, options, from, to)+vm.with(hcl{"host": quote(host.Name)}).String())
	}
	config(from, "")
	tf.Run(t, "apply")
	t.Cleanup(func() { tf.Run(t, "destroy") })
	if err := boot.same(t, from.Name)(nil); err != nil {
		t.Error(err)
	}
	state := func(h *lab.Host) string {
		out, err := l.TryVirsh(t, h.Name, "domstate", "--reason", name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(out)
	}
	const stranded = "paused (migrating)"

	config(to, `migration_options = { bandwidth = "2Mi" }`)
	apply := tf.Start(t, "apply")
	awaitCopying(t, l, from.Name, name, apply)
	if err := apply.Freeze(); err != nil {
		t.Fatal(err)
	}
	start := l.StopSSH(t, from)
	l.Virsh(t, from.Name, "migrate-setspeed", name, "8192")
	lab.Await(t, "all memory to be there, and the guest stopped", func() bool {
		job, err := l.TryVirsh(t, from.Name, "domjobinfo", name)
		return err == nil && strings.Contains(job, "None") && state(from) == stranded
	})
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("killed, it succeeded:\n%s", out)
	}
	lab.Await(t, "the target to drop what it got", func() bool { return state(to) == "" })
	start()

	for _, host := range []*lab.Host{to, from} {
		config(host, "")
		if plan := tf.Run(t, "plan"); !inOrder("status_reason", "MigrationInterrupted").MatchString(plan) {
			t.Errorf("the plan for host %s: %s", host.Name, plan)
		}
	}
	if now := state(from); now != stranded {
		t.Errorf("planning made it %s", now)
	}
	tf.Run(t, "apply")
	if here, there := state(from), state(to); !strings.HasPrefix(here, "running") || there != "" {
		t.Errorf("it is %q at the source and %q at the target", here, there)
	}
	if err := boot.same(t, from.Name)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
}

// awaitCopying waits until the VM's memory is on its way from the host.
func awaitCopying(t *testing.T, l *lab.Lab, host, name string, apply *acctest.Running) {
	t.Helper()
	lab.Await(t, "the migration to begin", func() bool {
		select {
		case <-apply.Done():
			t.Fatalf("Terraform has ended:\n%s", apply.Output())
		default:
		}
		out, err := l.TryVirsh(t, host, "domjobinfo", name)
		return err == nil && strings.Contains(out, "Memory processed")
	})
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
