package firststeps_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// onCall runs what the pages about errors, alerts and reasons say in their sentences, with the VM that runs on kvm2.
func (u *user) onCall(t *testing.T, dir string) {
	t.Helper()
	u.prints(t, u.home, "ssh -v <user>@<host>", "id\n", "<user>", account, "<host>", "kvm1.example.net")
	u.prints(t, dir, "terraform output host", "")
	u.prints(t, dir, "terraform apply -parallelism=<limit>", yes, "<limit>", "4")
	u.prints(t, dir, "terraform apply -target=...", yes, "...", "virtfleet_virtual_machine.web")
	u.prints(t, dir, "terraform plan -destroy -target=virtfleet_virtual_machine.web", "")

	disk := ""
	for _, word := range strings.Fields(u.onHost(t, "kvm2", "virsh domblklist web")) {
		if strings.HasPrefix(word, "/srv/vms/web-root-") {
			disk = word
		}
	}
	for _, command := range []string{
		"virsh list --title", "virsh domblkerror web", "virsh blockjob <vm> <disk>",
		"virsh metadata <vm> urn:virtfleet:1", "virsh metadata web urn:virtfleet:1", "virsh managedsave-remove <vm>",
		"qemu-img info -U <file>", "virsh pool-refresh <pool>", "virsh vol-list <pool>",
		"virsh dommemstat <vm> --period 10 --live --config",
	} {
		u.onHost(t, "kvm2", command, "<vm>", "web", "<disk>", "vda", "<file>", disk, "<pool>", "vms")
	}
	for _, command := range []string{"virsh resume <vm>", "virsh resume web"} {
		u.lab.Virsh(t, u.hosts["kvm2"].Name, "suspend", "web")
		u.onHost(t, "kvm2", command, "<vm>", "web")
	}
	if state := u.onHost(t, "kvm2", "virsh domstate --reason web"); !strings.Contains(state, "running") {
		t.Errorf("after all that the VM is %s", state)
	}
}

// eventually waits for the event of a change that it makes until the event comes. The printed command is its argument.
const eventually = onHost + `
$1 >metadata & event=$!
until grep web metadata; do
	kill -0 $event
	virsh metadata web urn:virtfleet:1 --key virtfleet --set "<vm/>" --live --config >/dev/null
	sleep 0.2
done
kill $event`

// sleeps has a VM suspend itself to memory. This port is where a guest says so, once its firmware has set it up.
const sleeps = `until virsh domstate web | grep pmsuspended; do
	virsh qemu-monitor-command web --hmp 'o /w 0x604 0x2400'
	sleep 0.2
done`

// byHand runs what is said about copies that libvirt has of a VM, with one on kvm1 that no configuration has, and
// removes it.
func (u *user) byHand(t *testing.T) {
	t.Helper()
	kvm1 := u.hosts["kvm1"].Name
	u.lab.Run(t, kvm1, "sh", "-c", eventually, "sh", u.printed("virsh event --event metadata-change --loop"))
	run := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			u.onHost(t, "kvm1", command, "<vm>", "web", "<snapshot>", "before", "<volume>", "lost")
		}
	}
	run("virsh metadata web urn:virtfleet:1 --remove --config", "virsh dominfo web",
		"virsh destroy web", "virsh start <vm>", "virsh autostart --disable <vm>")
	u.lab.Run(t, kvm1, "sh", "-ec", sleeps)
	run("virsh dompmwakeup <vm>")
	if state := u.onHost(t, "kvm1", "virsh domstate --reason web"); !strings.Contains(state, "running") {
		t.Errorf("after it was woken up, the VM is %s", state)
	}
	run("virsh destroy <vm>",
		"virsh dumpxml --inactive web > web.xml", "virsh dumpxml --inactive --migratable web > web.xml",
		"virsh undefine --keep-nvram --keep-tpm web", "virsh define web.xml",
		"virsh dumpxml --inactive --migratable <vm> >vm.xml", "virsh define vm.xml")
	u.lab.Virsh(t, kvm1, "snapshot-create-as", "web", "before")
	run("virsh snapshot-list <vm>", "virsh snapshot-delete <vm> <snapshot>",
		"virsh undefine --keep-nvram --keep-tpm web", "virsh vol-delete --pool vms <volume>")

	const uuid, of = "0d5a7c9e-2f4b-4c1d-8e3a-6b9f1c7d2e40", "3f2a9c0d-8e7b-4a5f-8d3c-2b1a09f8e7d6"
	for _, command := range []string{"virsh secret-undefine <UUID of the secret>", "virsh secret-undefine <uuid>"} {
		u.lab.Run(t, kvm1, "sh", "-ec", `echo "$1" >/run/secret.xml; virsh secret-define /run/secret.xml`, "sh",
			"<secret><uuid>"+uuid+"</uuid><usage type='ceph'><name>virtfleet:lock:"+of+"</name></usage></secret>")
		lock := u.onHost(t, "kvm1", "virsh secret-list | grep virtfleet:lock:<UUID of the VM>", "<UUID of the VM>", of)
		if !strings.HasPrefix(strings.TrimSpace(lock), uuid) {
			t.Errorf("the lock is listed as %q", lock)
		}
		u.onHost(t, "kvm1", command, "<UUID of the secret>", uuid, "<uuid>", uuid)
	}
}

// builds builds the provider without make, as CONTRIBUTING says, outside of the repository.
func (u *user) builds(t *testing.T) {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	u.prints(t, repository, "go build -buildvcs=false -trimpath -ldflags '-X main.version=0.0.1' "+
		"-o terraform-provider-virtfleet_v0.0.1 .", "", "-o ", "-o "+u.home+"/")
	if said := u.does(t, u.home, "./terraform-provider-virtfleet_v0.0.1 help", ""); !strings.Contains(said, "exporter") {
		t.Errorf("what was built says:\n%s", said)
	}
}
