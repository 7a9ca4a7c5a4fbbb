package firststeps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ownFiles gives a host settings of its own: it shares those of this computer.
const ownFiles = `set -e
cp -a /etc /run/etc
sed -i '/^monitor:/d; /^virtfleet:/d' /run/etc/passwd /run/etc/shadow /run/etc/group /run/etc/gshadow
echo HOME=/run >>/run/etc/default/useradd
mount --bind /run/etc /etc
`

// exporting runs the exporter as the service does, with the printed commands as its arguments, until both hosts are
// up in what it exports.
const exporting = `set -e
cd /etc/virtfleet
setpriv --reuid virtfleet --regid virtfleet --clear-groups sh -c "exec $1" & exporter=$!
until sh -c "$2" | tee /run/metrics | grep -c ' 1$' | grep -qx 2; do
	kill -0 $exporter
	sleep 0.2
done
kill $exporter
wait $exporter
cat /run/metrics
`

// monitored sets the exporter up as the guides say: an account on each host, and kvm1 as the computer that runs the
// service.
func (u *user) monitored(t *testing.T) {
	t.Helper()
	for name, h := range u.hosts {
		u.lab.Run(t, h.Name, "sh", "-c", ownFiles)
		for _, command := range []string{
			"useradd --system --user-group --create-home --password '*' --shell /usr/sbin/nologin monitor",
			"install -d -o monitor -g monitor -m 700 ~monitor/.ssh",
			"echo 'restrict,port-forwarding ssh-ed25519 AAAA... exporter' >~monitor/.ssh/authorized_keys",
			"echo vm.unprivileged_userfaultfd=1 >/etc/sysctl.d/60-postcopy.conf",
		} {
			u.onHost(t, name, command)
		}
	}
	u.service(t)

	said := u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-c", exporting, "sh",
		u.printed("virtfleet exporter --config fleet.yaml"),
		u.printed("curl -s http://localhost:9850/metrics | grep '^virtfleet_host_up'"))
	if !strings.Contains(said, `node="kvm1"`) || !strings.Contains(said, `node="kvm2"`) {
		t.Errorf("the metrics say:\n%s", said)
	}
}

// service installs the service on kvm1, and lets its key in on the hosts.
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
	u.lab.Run(t, computer.Name, "systemd-analyze", "verify", "--man=no", "/etc/systemd/system/virtfleet-exporter.service")

	key := strings.Fields(u.lab.Run(t, computer.Name, "cat", "/etc/virtfleet/id_ed25519.pub"))
	for _, h := range u.hosts {
		// The lab's sshd reads the keys of all accounts in one file.
		u.lab.Run(t, h.Name, "sh", "-c", "sed \"s|ssh-ed25519 AAAA...|$1|\" ~monitor/.ssh/authorized_keys "+
			">>/etc/ssh/authorized_keys", "sh", key[0]+" "+key[1])
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
