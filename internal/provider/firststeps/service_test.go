package firststeps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// withoutAccounts removes the accounts that the guides create, which this computer may have too. A home directory would
// be this computer's.
const withoutAccounts = `set -e
sed -i '/^monitor:/d; /^virtfleet:/d' /etc/passwd /etc/shadow /etc/group /etc/gshadow
echo HOME=/run >>/etc/default/useradd
`

// exporting runs the exporter as in a terminal, with the printed commands as its arguments, until it says that both
// hosts are up.
const exporting = `set -e
cd /etc/virtfleet
setpriv --reuid virtfleet --regid virtfleet --clear-groups sh -c "exec $1" & exporter=$!
until sh -c "$2" | grep -c ' 1$' | grep -qx 2; do
	kill -0 $exporter
	sleep 0.2
done
kill $exporter
wait $exporter
`

// scrape is what the page says to look at, while the exporter runs.
const scrape = "curl -s http://localhost:9850/metrics | grep '^virtfleet_host_up'"

// monitored sets the exporter up as the guides say: an account on each host, and kvm1 as the computer that runs the
// service. Then the guide about alerts helps with a host whose libvirt doesn't answer.
func (u *user) monitored(t *testing.T) {
	t.Helper()
	for name, h := range u.hosts {
		u.lab.Run(t, h.Name, "sh", "-c", withoutAccounts)
		for _, command := range []string{
			"useradd --system --user-group --create-home --password '*' --shell /usr/sbin/nologin monitor",
			"install -d -o monitor -g monitor -m 700 ~monitor/.ssh",
			"echo 'restrict,port-forwarding ssh-ed25519 AAAA... exporter' >~monitor/.ssh/authorized_keys",
			"echo vm.unprivileged_userfaultfd=1 >/etc/sysctl.d/60-postcopy.conf",
		} {
			u.onHost(t, name, command)
		}
		// The kernel is this computer's, and refuses. A key that it doesn't have would be another error.
		said := u.lab.Run(t, h.Name, "sh", "-c", u.printed("sysctl --system")+" 2>&1 || true")
		if !strings.Contains(said, "* Applying /etc/sysctl.d/60-postcopy.conf") ||
			!strings.Contains(said, `permission denied on key "vm.unprivileged_userfaultfd"`) {
			t.Errorf("%s doesn't try the setting for post-copy:\n%s", name, said)
		}
	}
	// It has directories in this computer's /tmp while it runs, and would run again at the next boot.
	defer u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-c", "systemctl disable --now virtfleet-exporter || true")
	u.service(t)
	u.exports(t, map[string]string{"kvm1": "1", "kvm2": "1"})

	pid := strings.TrimSpace(u.lab.Run(t, u.hosts["kvm1"].Name, "systemctl", "show", "--property=MainPID", "--value",
		"virtfleet-exporter"))
	status := u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-c", `stat -c 'User: %U' "/proc/$1"; cat "/proc/$1/status"`,
		"sh", pid)
	for _, want := range []string{"User: virtfleet\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("the process of the service isn't as its file says, %q:\n%s", want, status)
		}
	}
	u.explainsItself(t)
	u.alerted(t)
}

// exports waits until the service says of each host whether it is up.
func (u *user) exports(t *testing.T, up map[string]string) {
	t.Helper()
	command := u.printed(scrape)
	lab.Await(t, fmt.Sprintf("the exporter to say of the hosts %v", up), func() bool {
		// Until the service listens, the command fails.
		said, err := u.hosts["kvm1"].Run(t.Context(), "sh", "-c", command)
		for host, want := range up {
			if !strings.Contains(said, fmt.Sprintf("virtfleet_host_up{node=%q} %s\n", host, want)) {
				return false
			}
		}
		return err == nil
	})
}

// service installs the service on kvm1, lets its key in on the hosts, and starts it.
func (u *user) service(t *testing.T) {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	computer := u.hosts["kvm1"]
	u.lab.Run(t, computer.Name, "sh", "-c", `mount -t tmpfs tmpfs /usr/local/bin && install "$1" /usr/local/bin`, "sh",
		filepath.Join(u.home, ".local/bin/virtfleet"))
	for _, command := range []string{
		"useradd --system --user-group --shell /usr/sbin/nologin virtfleet",
		"install -d -o virtfleet -g virtfleet -m 750 /etc/virtfleet",
		"install -o virtfleet -g virtfleet -m 640 examples/monitoring/fleet.yaml /etc/virtfleet/fleet.yaml",
		"install -m 644 examples/monitoring/virtfleet-exporter.service /etc/systemd/system/virtfleet-exporter.service",
		"ssh-keygen -t ed25519 -N '' -f /etc/virtfleet/id_ed25519",
		"ssh-keyscan kvm1.example.net kvm2.example.net >/etc/virtfleet/known_hosts",
		"ssh-keygen -l -f /etc/virtfleet/known_hosts",
		"chown virtfleet:virtfleet /etc/virtfleet/id_ed25519 /etc/virtfleet/known_hosts",
	} {
		u.lab.Run(t, computer.Name, "sh", "-c", `cd "$1" && eval "$2"`, "sh", repository, u.printed(command))
	}
	known := u.lab.Run(t, computer.Name, "ssh-keygen", "-l", "-f", "/etc/virtfleet/known_hosts")
	for name := range u.hosts {
		own := u.onHost(t, name, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
		if fingerprint := strings.Fields(own)[1]; !strings.Contains(known, fingerprint) {
			t.Errorf("%s has the key %s, and what was collected is\n%s", name, own, known)
		}
	}
	u.lab.Run(t, computer.Name, "systemd-analyze", "verify", "--man=no", "/etc/systemd/system/virtfleet-exporter.service")

	key := strings.Fields(u.lab.Run(t, computer.Name, "cat", "/etc/virtfleet/id_ed25519.pub"))
	for _, h := range u.hosts {
		// The lab's sshd reads the keys of all accounts in one file.
		u.lab.Run(t, h.Name, "sh", "-c", "sed \"s|ssh-ed25519 AAAA...|$1|\" ~monitor/.ssh/authorized_keys "+
			">>/etc/ssh/authorized_keys", "sh", key[0]+" "+key[1])
	}
	u.lab.Run(t, computer.Name, "sh", "-c", exporting, "sh", u.printed("virtfleet exporter --config fleet.yaml"),
		u.printed(scrape))
	u.onHost(t, "kvm1", "systemctl enable --now virtfleet-exporter")
}

// explainsItself has the service fail because of its configuration, and reads why.
func (u *user) explainsItself(t *testing.T) {
	t.Helper()
	u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-ec", "cp -p /etc/virtfleet/fleet.yaml /run\n"+
		"echo 'no_such_setting: true' >>/etc/virtfleet/fleet.yaml\nsystemctl restart virtfleet-exporter")
	lab.Await(t, "the journal to say why the exporter doesn't start", func() bool {
		said := u.onHost(t, "kvm1", "journalctl -u virtfleet-exporter")
		return strings.Contains(said, "no_such_setting")
	})
	u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-ec",
		"cp -p /run/fleet.yaml /etc/virtfleet\nsystemctl restart virtfleet-exporter")
	u.exports(t, map[string]string{"kvm1": "1", "kvm2": "1"})
}

// alerted has the libvirt of kvm2 stop, and follows the page about the alert.
func (u *user) alerted(t *testing.T) {
	t.Helper()
	kvm2 := u.hosts["kvm2"]
	before := u.lab.Virsh(t, kvm2.Name, "list", "--uuid")
	u.lab.Run(t, kvm2.Name, "systemctl", "stop", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket",
		"libvirtd")
	u.exports(t, map[string]string{"kvm1": "1", "kvm2": "0"})
	// It fails because one of the two isn't there.
	status := u.lab.Run(t, kvm2.Name, "sh", "-c", u.printed("systemctl status libvirtd virtqemud")+" 2>&1 || true")
	if !strings.Contains(status, "Active: inactive (dead)") ||
		!strings.Contains(status, "virtqemud.service could not be found") {
		t.Errorf("the page says to look at the status, which is\n%s", status)
	}
	u.onHost(t, "kvm2", "systemctl restart libvirtd")
	u.exports(t, map[string]string{"kvm1": "1", "kvm2": "1"})
	if after := u.lab.Virsh(t, kvm2.Name, "list", "--uuid"); after != before {
		t.Errorf("kvm2 had the VMs %s before libvirtd was restarted, now %s", before, after)
	}
}

// elsewhereManaged is the state of a configuration that has a VM by another provider.
const elsewhereManaged = `{"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l", "resources": [`

// elsewhereResource is one of its resources.
const elsewhereResource = `{
  "mode": "managed", "type": "%s", "name": "web",
  "provider": "provider[\"registry.terraform.io/dmacvicar/libvirt\"]",
  "instances": [{"schema_version": 0, "attributes": {"id": "4dea22b3-1d52-d8f3-2516-782e98ab3fa0"}}]
}`

// cameOver lets another provider's state go of a VM and of what belongs to it.
func (u *user) cameOver(t *testing.T) {
	t.Helper()
	var resources []string
	for _, kind := range []string{"libvirt_domain", "libvirt_cloudinit_disk", "libvirt_ignition"} {
		resources = append(resources, fmt.Sprintf(elsewhereResource, kind))
	}
	u.write(t, "other/terraform.tfstate", elsewhereManaged+strings.Join(resources, ", ")+"]}", 0o600)
	dir := filepath.Join(u.home, "other")
	u.prints(t, dir, "terraform state pull > before.tfstate", "")
	u.prints(t, dir, "terraform state rm libvirt_domain.web", "")
	u.prints(t, dir, "terraform state rm libvirt_cloudinit_disk.web", "")
	u.prints(t, dir, "terraform state rm libvirt_ignition.web", "")
	left, err := os.ReadFile(filepath.Join(dir, "terraform.tfstate"))
	if err != nil || strings.Contains(string(left), "web") {
		t.Errorf("the state is still %s (%v)", left, err)
	}
}
