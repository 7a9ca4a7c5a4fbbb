package firststeps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// ownPackages gives a host a list of its own of what is installed. It knows no archive to install more from.
const ownPackages = `set -e
mkdir -p /run/apt/state/lists/partial /run/apt/cache/archives/partial
cp /var/lib/dpkg/status /run/apt/status
cat >/etc/apt/apt.conf.d/99lab <<END
Dir::State "/run/apt/state";
Dir::State::status "/run/apt/status";
Dir::Cache "/run/apt/cache";
END
`

// activates installs libvirt, which is there, and starts the hosts' networks as the pages say: they are there, and off.
func (u *user) activates(t *testing.T) {
	t.Helper()
	u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-c", ownPackages)
	const packages = "apt-get install libvirt-daemon-system qemu-system-x86 qemu-utils ovmf swtpm-tools"
	if said := u.onHost(t, "kvm1", packages); !strings.Contains(said, "0 upgraded, 0 newly installed, 0 to remove") {
		t.Errorf("these packages, which this computer has, aren't what a host needs:\n%s", said)
	}
	for name := range u.hosts {
		u.connects(t, name)
		if said := u.onHost(t, name, "virsh -c qemu:///system net-list --all"); !strings.Contains(said, "inactive") {
			t.Errorf("%s isn't fresh:\n%s", name, said)
		}
		u.lab.Virsh(t, u.hosts[name].Name, "net-undefine", "default") // As on a host where it is missing.
		for _, command := range []string{
			"virsh -c qemu:///system net-define /usr/share/libvirt/networks/default.xml",
			"virsh -c qemu:///system net-start default", "virsh -c qemu:///system net-autostart default",
		} {
			u.onHost(t, name, command)
		}
		for _, other := range u.hosts {
			if said := u.onHost(t, name, "getent hosts <name>", "<name>", other.Name); !strings.Contains(said, other.Address) {
				t.Errorf("%s resolves %s to %q", name, other.Name, said)
			}
		}
	}
}

// drainsHost drains the host that has the VM, and ends the maintenance, as the guide says.
func (u *user) drainsHost(t *testing.T, dir string) {
	t.Helper()
	u.prints(t, dir, apply+" -var host=kvm2", yes, "kvm2", "kvm1")
	u.prints(t, dir, apply, yes) // A VM that is pinned to the host would stop the drain.
	blocks := blocksOf(t, "draining-a-host.md")
	u.write(t, "first/drain.tf", blocks[0], 0o644)
	if said := u.prints(t, dir, plan, ""); !strings.Contains(said, "web: LiveMigration kvm2") {
		t.Errorf("the preview says:\n%s", said)
	}
	u.write(t, "first/drain.tf", blocks[0]+blocks[1], 0o644)
	u.prints(t, dir, apply, yes)
	if left := u.onHost(t, "kvm1", "virsh list --all"); strings.Contains(left, "web") {
		t.Errorf("after the drain, kvm1 has\n%s", left)
	}
	if said := u.prints(t, dir, apply, yes); !strings.Contains(said, "0 added, 0 changed, 0 destroyed") {
		t.Errorf("while the host is under maintenance:\n%s", said)
	}
	u.logsIn(t, dir)
	if err := os.Remove(filepath.Join(dir, "drain.tf")); err != nil {
		t.Fatal(err)
	}
	u.prints(t, dir, apply, yes)
	if back := u.onHost(t, "kvm1", "virsh list --all"); !strings.Contains(back, "web") {
		t.Errorf("after the maintenance, kvm1 has\n%s", back)
	}
}

// outlives goes through the page about a host that died, from the plan that fails to the host that is back.
func (u *user) outlives(t *testing.T, dir string) {
	t.Helper()
	const file = "first/first-vm_main.tf"
	example, err := os.ReadFile(filepath.Join(u.home, file))
	if err != nil {
		t.Fatal(err)
	}
	web := strings.TrimSpace(u.lab.Virsh(t, u.hosts["kvm1"].Name, "domuuid", "web"))
	powerOn := u.lab.PowerOff(t, u.hosts["kvm1"])
	if said := u.planFails(t, dir); !strings.Contains(said, `Unable to read storage pool "vms"`) ||
		!strings.Contains(said, "fenced = true") {
		t.Errorf("while the host is off:\n%s", said)
	}
	u.prints(t, dir, "terraform state show virtfleet_virtual_machine.web", "")
	u.write(t, file, withKVM1Fenced(t, string(example)), 0o644)
	if said := u.prints(t, dir, plan, ""); !strings.Contains(said, "virtfleet_virtual_machine.web will be created") ||
		!strings.Contains(said, "Disks are lost with their host") {
		t.Errorf("the plan of the fenced host says:\n%s", said)
	}
	u.prints(t, dir, apply, yes)
	// The new guest may have the old one's address, and has keys of its own.
	u.prints(t, dir, "ssh-keygen -R <address>", "", "<address>", "$(terraform output -raw address) -f ~/.ssh/known_hosts")
	u.logsIn(t, dir)

	powerOn()
	lab.Await(t, "kvm1 to start its old VM", func() bool {
		state, err := u.lab.TryVirsh(t, u.hosts["kvm1"].Name, "domstate", web)
		return err == nil && strings.TrimSpace(state) == "running"
	})
	u.write(t, file, string(example), 0o644)
	if said := u.planFails(t, dir); !strings.Contains(said, web) {
		t.Errorf("with two copies, the plan says:\n%s", said)
	}
	u.write(t, file, withKVM1Fenced(t, string(example)), 0o644)
	disks := u.onHost(t, "kvm1", "virsh domblklist web")
	u.onHost(t, "kvm1", "virsh list --all")
	u.onHost(t, "kvm1", "virsh destroy web")
	u.onHost(t, "kvm1", "virsh undefine --nvram web")
	u.onHost(t, "kvm1", "virsh vol-list vms")
	for _, word := range strings.Fields(disks) {
		if volume, own := strings.CutPrefix(word, "/srv/vms/"); own {
			u.onHost(t, "kvm1", "virsh vol-delete --pool vms web-root-6fa8ec5b", "web-root-6fa8ec5b", volume)
		}
	}
	u.write(t, file, string(example), 0o644)
	u.prints(t, dir, plan, "")
	u.prints(t, dir, apply, yes)
	if said := u.prints(t, dir, plan, ""); !strings.Contains(said, "No changes.") {
		t.Errorf("after the host came back:\n%s", said)
	}
	files, err := filepath.Glob(u.hosts["kvm1"].Path("/srv/vms/web-*"))
	if host := u.does(t, dir, "terraform output -raw host", ""); host != "kvm2" || err != nil || len(files) != 0 {
		t.Errorf("the VM is on %s, and kvm1 still has %q (%v)", host, files, err)
	}
}

// withKVM1Fenced is a configuration in which the host kvm1 is fenced, by the line that the page prints.
func withKVM1Fenced(t *testing.T, config string) string {
	t.Helper()
	for line := range strings.Lines(blocksOf(t, "a-host-died.md")[0]) {
		before, after, found := strings.Cut(asUser(strings.TrimSpace(line)), ", fenced = true }")
		if found && strings.Contains(config, before+" }") {
			return strings.Replace(config, before+" }", before+", fenced = true }"+after, 1)
		}
	}
	t.Fatalf("the page fences no host of\n%s", config)
	return ""
}

// blocksOf are the blocks of configuration that a guide prints.
func blocksOf(t *testing.T, guide string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "templates/guides", guide))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	parts := strings.Split(strings.ReplaceAll(string(text), "```hcl\n", "```terraform\n"), "```terraform\n")
	for _, part := range parts[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}
