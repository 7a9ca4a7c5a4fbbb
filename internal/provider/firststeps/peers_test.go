package firststeps_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// vmOfOthers is a VM that no configuration has, with a disk.
const vmOfOthers = `<domain type='qemu'><name>web</name><memory unit='MiB'>32</memory><os><type>hvm</type></os>
<features><acpi/></features><devices>
%DISK%</devices></domain>`

// aborting moves a VM with a disk that takes long to copy, and aborts that. Its arguments are the target and the
// command that aborts, which has to wait until the migration has begun.
const aborting = `cd /run
virsh migrate --live --persistent --undefinesource --copy-storage-all --bandwidth 1 web "$1" >said 2>&1 & migration=$!
while kill -0 $migration; do
	$2 || true
	sleep 0.2
done
if wait $migration; then
	echo "it wasn't aborted"
	exit 1
fi
cat said`

// peers has the libvirt of kvm2 listen for other hosts, as the page about peer-to-peer migrations says. A VM is moved
// there with virsh, as an administrator and as a tool that evicts VMs do.
func (u *user) peers(t *testing.T) {
	t.Helper()
	kvm1, kvm2 := u.hosts["kvm1"], u.hosts["kvm2"]
	authority := lab.NewAuthority(t)
	authority.EquipLibvirt(t, kvm1)
	authority.EquipLibvirt(t, kvm2)
	const stop, listen = "systemctl stop libvirtd", "systemctl enable --now libvirtd-tls.socket"
	u.onHost(t, "kvm2", stop)
	u.onHost(t, "kvm2", "virsh list --all")
	if said, err := kvm2.Run(t.Context(), "sh", "-c", u.printed(listen)); err == nil {
		t.Errorf("the socket is opened while libvirtd runs:\n%s", said)
	}
	for _, command := range []string{stop, listen, "systemctl start libvirtd"} {
		u.onHost(t, "kvm2", command)
	}
	target := "qemu+tls://" + kvm2.Address + "/system"
	if name := u.lab.Run(t, kvm1.Name, "virsh", "--connect", target, "hostname"); strings.TrimSpace(name) != kvm2.Name {
		t.Errorf("%s is the host %q, not %s", target, name, kvm2.Name)
	}

	const disk = "/var/lib/libvirt/images/web"
	u.lab.Run(t, kvm1.Name, "dd", "if=/dev/urandom", "of="+disk, "bs=1M", "count=32")
	u.lab.Run(t, kvm2.Name, "truncate", "--size=32M", disk)
	u.hasWeb(t, "<disk type='file'><driver name='qemu' type='raw'/><source file='"+disk+"'/><target dev='vda'/></disk>")
	said := u.lab.Run(t, kvm1.Name, "bash", "-c", aborting, "bash", target, u.printed("virsh domjobabort web"))
	if !strings.Contains(said, "abort") && !strings.Contains(said, "cancel") {
		t.Errorf("the migration that was aborted says %q", said)
	}
	if state := u.lab.Virsh(t, kvm1.Name, "domstate", "web"); !strings.Contains(state, "running") {
		t.Errorf("after its migration was aborted, the VM is %s", state)
	}
	u.lab.Virsh(t, kvm1.Name, "destroy", "web")
	u.lab.Virsh(t, kvm1.Name, "undefine", "web")

	export := u.lab.NBD(t, lab.Name(t), 1<<20)
	u.hasWeb(t, "<disk type='network'><driver name='qemu' type='raw' cache='none'/><source protocol='nbd' name='"+
		export.Name+"'><host name='"+export.Host+"' port='"+strconv.Itoa(export.Port)+"'/></source>"+
		"<target dev='vda'/></disk>")
	u.onHost(t, "kvm1", "virsh migrate --live --persistent --undefinesource web <URI of the target>",
		"<URI of the target>", target)
	if left := u.lab.Virsh(t, kvm1.Name, "list", "--all", "--name"); strings.TrimSpace(left) != "" {
		t.Errorf("kvm1, which the VM left, has %s", left)
	}
	if has := u.lab.Virsh(t, kvm2.Name, "list", "--persistent", "--name"); strings.TrimSpace(has) != "web" {
		t.Errorf("kvm2, which the VM was moved to, has %s", has)
	}
	u.lab.Virsh(t, kvm2.Name, "destroy", "web")
	u.lab.Virsh(t, kvm2.Name, "undefine", "web")
}

// hasWeb starts a VM of others on kvm1, with a disk.
func (u *user) hasWeb(t *testing.T, disk string) {
	t.Helper()
	u.lab.Run(t, u.hosts["kvm1"].Name, "sh", "-ec", `printf %s "$1" >/run/web.xml
virsh define /run/web.xml
virsh start web`, "sh", strings.Replace(vmOfOthers, "%DISK%", disk, 1))
}
