package firststeps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const (
	initialise = "terraform init"
	apply      = "terraform apply"
	plan       = "terraform plan"
	yes        = "yes\n"
	vmsOfHost  = `terraform show -json | jq -r '.. | objects | select(.type? == "virtfleet_virtual_machine") |` + "\n" +
		`  select(.values.current_host == "kvm1") | .address'`
	login = "ssh -J root@$(terraform output -raw host).example.net ops@$(terraform output -raw address)"
)

// TestAccFirstSteps is a new user's first hour: the README from the installation to a VM that moved, then what the
// guides and the pages of the resources print.
func TestAccFirstSteps(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	defer u.transcript(t)
	u.begins("Install")
	u.install(t)
	u.builds(t)
	u.worksByHand(t)
	u.begins("Prepare two hosts")
	u.activates(t)
	u.begins("A first VM, and a login")
	first := u.firstVM(t)
	u.begins("Move it while it runs, with its disk")
	u.watched(t, first)
	u.looked(t)
	u.begins("Drain a host, and end the maintenance")
	u.drainsHost(t, first)
	u.begins("A host dies, and comes back")
	u.outlives(t, first)
	u.begins("What other pages print")
	u.onCall(t, first)
	u.looksUp(t)
	u.imported(t, first)
	u.references(t)
	u.drained(t)
	u.rolled(t)
	u.crashed(t)
	u.defines(t)
	u.cameOver(t)
	u.unlocks(t)
	u.monitored(t)

	u.prints(t, first, "terraform destroy", yes)
	u.peers(t)
	u.boots(t)
	u.applies(t)
	for name, h := range u.hosts {
		if left := u.lab.Virsh(t, h.Name, "list", "--all", "--name"); strings.TrimSpace(left) != "" {
			t.Errorf("%s still has %s", name, left)
		}
		if files, err := filepath.Glob(h.Path("/srv/vms/*")); err != nil || len(files) != 0 {
			t.Errorf("%s still has the files %v (%v)", name, files, err)
		}
	}
	u.everyCommand(t)
}

// firstVM goes from an image to a login.
func (u *user) firstVM(t *testing.T) (dir string) {
	t.Helper()
	dir = u.directory(t, "first", "first-vm")
	u.write(t, "first/terraform.tfvars", "image = "+u.image+"\n", 0o644)
	u.prints(t, dir, initialise, "")
	u.prints(t, dir, apply, yes)
	u.logsIn(t, dir)
	if said := u.prints(t, dir, plan, ""); !strings.Contains(said, "No changes.") {
		t.Errorf("after the apply:\n%s", said)
	}
	onFirst := u.prints(t, dir, vmsOfHost, "")
	if host := u.does(t, dir, "terraform output -raw host", ""); (host == "kvm1") !=
		strings.Contains(onFirst, "virtfleet_virtual_machine.web\n") {
		t.Errorf("the VM is on %s, and what was on kvm1 is listed as %q", host, onFirst)
	}
	return dir
}

// logsIn logs in as the README says, and returns for how long the guest has been up. Where the README says to try
// again, it does: the bridge of libvirt's own network forwards nothing for the four seconds after the VM has come to
// the host.
func (u *user) logsIn(t *testing.T, dir string) (uptime float64) {
	t.Helper()
	command, began := u.printed(login), time.Now()
	var said string
	lab.Await(t, "the login to have a route to the guest", func() bool {
		var err error
		said, err = u.tries(t, dir, command,
			"echo \"guest $(id -un) $(hostname) $(cat /sys/block/vda/size)\"; cat /proc/uptime\n")
		if err != nil && !strings.Contains(said, "No route to host") {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		return err == nil
	})
	u.step(command, began)
	_, answer, found := strings.Cut(said, "guest ops web 41943040\n")
	if _, err := fmt.Sscan(answer, &uptime); !found || err != nil {
		t.Fatalf("the guest says %q: %v", said, err)
	}
	return uptime
}

// watched moves the VM while the operator's commands look on.
func (u *user) watched(t *testing.T, dir string) {
	t.Helper()
	u.write(t, "first/fleet.yaml", "hosts:\n  kvm1: { uri: \"qemu+ssh://root@kvm1.example.net/system\" }\n"+
		"  kvm2: { uri: \"qemu+ssh://root@kvm2.example.net/system\" }\n", 0o644)
	host := func() string { return u.does(t, dir, "terraform output -raw host", "") }
	if host() == "kvm2" {
		u.does(t, dir, apply+" -auto-approve -var host=kvm1", "")
	}
	before := u.logsIn(t, dir)
	var events string
	watch := u.meanwhile(t, dir, "virtfleet watch --config fleet.yaml", "on 2 hosts", func(func() string) {
		const follow = "virtfleet events --config fleet.yaml --vm web"
		events = u.meanwhile(t, dir, follow, "following its events", func(func() string) {
			u.prints(t, dir, apply+" -var host=kvm2", yes)
		})
	})
	if !strings.Contains(watch, "kvm1 -> kvm2") || !strings.Contains(events, "Resumed (Migrated)") {
		t.Errorf("the commands don't tell of the move:\n%s\n%s", watch, events)
	}
	if after := u.logsIn(t, dir); host() != "kvm2" || after <= before {
		t.Errorf("the VM is on %s, up for %.1f s; it was up for %.1f s", host(), after, before)
	}
	for command, want := range map[string]string{
		"virsh domstate --reason web": "running (migrated)", "virsh domjobinfo web": "None",
	} {
		if said := u.onHost(t, "kvm2", command); !strings.Contains(said, want) {
			t.Errorf("%s says %q, want %q", command, said, want)
		}
	}
	files, err := filepath.Glob(u.hosts["kvm1"].Path("/srv/vms/web-*"))
	if err != nil || len(files) != 0 {
		t.Errorf("the host that it left still has %q (%v)", files, err)
	}
	u.prints(t, dir, "TF_LOG_PROVIDER=DEBUG terraform apply", yes)
}

// looked shows the VM on one screen.
func (u *user) looked(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "alive", "is-my-vm-alive")
	u.does(t, dir, initialise, "")
	said := u.prints(t, dir, "terraform apply -auto-approve -var name=web && terraform output -raw screen", "")
	if !strings.Contains(said, "web: Running (Migrated)") {
		t.Errorf("the screen says:\n%s", said)
	}
}

// imported lets go of the VM and imports it, by name and with generated configuration.
func (u *user) imported(t *testing.T, dir string) {
	t.Helper()
	const vm = "virtfleet_virtual_machine.web"
	u.does(t, dir, "terraform state rm "+vm, "")
	u.prints(t, dir, "terraform import "+vm+" web", "")
	if said := u.prints(t, dir, plan, ""); !strings.Contains(said, "0 to add, 1 to change, 0 to destroy") {
		t.Errorf("after the import:\n%s", said)
	}
	u.does(t, dir, apply+" -auto-approve", "")

	block := blocksOf(t, "import-a-fleet.md")[0]
	all := u.directory(t, "all")
	u.write(t, "all/main.tf", provided+block, 0o644)
	u.does(t, all, initialise, "")
	u.prints(t, all, apply, yes)
	u.prints(t, all, "terraform output -raw import_blocks > imports.tf", "")
	said := u.prints(t, all, "terraform plan -generate-config-out=generated.tf", "")
	u.write(t, "all/imports.tf", "import {\n  to = virtfleet_network.default\n  id = \"default\"\n}\n", 0o644)
	if err := os.Remove(filepath.Join(all, "generated.tf")); err != nil {
		t.Fatal(err)
	}
	network := u.prints(t, all, "terraform plan -generate-config-out=networks.tf", "")
	if !strings.Contains(network, "1 to import, 0 to add, 0 to change, 0 to destroy") {
		t.Errorf("importing the network says:\n%s", network)
	}
	if !strings.Contains(said, "1 to import, 0 to add, 0 to change, 0 to destroy") {
		t.Errorf("importing all says:\n%s", said)
	}
}
