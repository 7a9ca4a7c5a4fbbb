package fleettest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Guest is a VM that boots the lab's guest.
func Guest(l *lab.Lab, name, words string) placement.Desired {
	size, vcpus, agent, console := uint64(192<<20), 1, true, true

	return placement.Desired{
		Spec: domain.Spec{
			Name: name, Type: "qemu",
			CPU: domain.CPU{VCPUs: &vcpus}, Memory: domain.Memory{Size: &size},
			Kernel:     &domain.Kernel{Path: l.KernelPath(), Initrd: l.InitrdPath(), Cmdline: lab.GuestCmdline + " " + words},
			GuestAgent: &agent, SerialConsole: &console,
		},
		Metadata: domain.Metadata{RunStrategy: "Always"},
	}
}

// Mover is a VM on kvm1 whose disk both hosts reach.
func Mover(t *testing.T, l *lab.Lab, words string) placement.Desired {
	t.Helper()

	d := Guest(l, lab.Name(t), words)
	export := l.NBD(t, d.Spec.Name, 16<<20)
	d.Metadata.Host = "kvm1"
	d.Metadata.Labels = map[string]string{"app": "web"}
	d.Spec.Disks = map[string]domain.Disk{"root": {
		Source: domain.DiskSource{Network: &domain.NetworkSource{
			Protocol: "nbd", Name: export.Name, Hosts: []string{export.Address()},
		}},
		Format: "raw", Cache: "none",
	}}
	d.Spec.Interfaces = map[string]domain.Interface{"lan": {Bridge: lab.LANBridge}}

	return d
}

// Evacuee is a small VM on any host, whose disk every host reaches: it can be moved live.
func Evacuee(t *testing.T, l *lab.Lab, name string, labels map[string]string) placement.Desired {
	t.Helper()

	d := Mover(t, l, "noagent")
	d.Spec.Name = d.Spec.Name[len(d.Spec.Name)-6:] + "-" + name
	size := uint64(128 << 20)
	d.Spec.Memory.Size = &size
	d.Metadata.Host, d.Metadata.Labels = "", labels
	d.Metadata.TerminationGracePeriod = new(20 * time.Second)

	return d
}

// Light is a VM that costs nothing: its firmware finds nothing to boot, and it is forced off at once.
func Light(t *testing.T, l *lab.Lab, name string, labels map[string]string) placement.Desired {
	t.Helper()

	d := Evacuee(t, l, name, labels)
	size := uint64(32 << 20)
	d.Spec.Kernel, d.Spec.Memory.Size, d.Metadata.TerminationGracePeriod = nil, &size, new(time.Duration(0))

	return d
}

// Small starts a VM that no configuration has and that costs nothing, with these elements, and returns its UUID.
func Small(t *testing.T, l *lab.Lab, on *lab.Host, name, elements string) string {
	t.Helper()
	l.RemoveDomain(t, name)
	l.Define(t, on.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64" machine="q35">hvm</type></os>%s</domain>`, name, elements))
	l.Virsh(t, on.Name, "start", name)

	return strings.TrimSpace(l.Virsh(t, on.Name, "domuuid", name))
}

// Create creates the VM in place of any of its name, and finishes that.
func Create(t *testing.T, f Fleet, l *lab.Lab, d placement.Desired) *inventory.VM {
	t.Helper()
	l.RemoveDomain(t, d.Spec.Name)

	vm, err := f.Create(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}

	if err := f.FinishCreate(t.Context(), vm); err != nil {
		t.Fatal(err)
	}

	return vm
}

// LastOf is what a reader remembers of where the VM is.
func LastOf(vm *inventory.VM) inventory.LastKnown {
	return inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}
}

// OnlyOn fails the test unless this host has the VM, and no other host has anything of it.
func OnlyOn(t *testing.T, f Fleet, uuid, name string) {
	t.Helper()

	for _, host := range f.HostNames() {
		h := f.Host(host)
		_, err := h.Conn.Domain(t.Context(), uuid)
		if (err == nil) != (h.Name == name) || err != nil && !inventory.IsNotFound(err) {
			t.Errorf("host %s: %v; want the VM on %s only", h.Name, err, name)
		}
	}
}

// Booted waits until the VM's guest reads its disk, and returns the VM. Before that its memory is nearly empty, so
// that a move would end before a test could interrupt it.
func Booted(t *testing.T, l *lab.Lab, vm *inventory.VM) *inventory.VM {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for strings.Contains(l.Virsh(t, vm.Host, "domblkstat", vm.UUID, "vda"), "rd_req 0\n") {
		if err := admission.Pause(ctx, 100*time.Millisecond); err != nil {
			t.Fatalf("the guest of %s does not boot", vm.Name)
		}
	}

	return vm
}

// Crawling are options of a migration that doesn't end by itself: the guest always writes more than can be copied
// within the downtime that they allow.
func Crawling() migration.Options {
	return migration.Options{
		Bandwidth: new(uint64(2 << 20)), MaxDowntime: new(time.Millisecond),
		CompletionTimeoutPerGiB: new(time.Hour), ProgressTimeout: new(time.Hour),
	}
}

// DefineBuiltIn defines a VM of its own for the test on a host of libvirt's built-in test driver.
func DefineBuiltIn(t *testing.T, h *inventory.Host) (id string) {
	t.Helper()

	id = uuid.NewString()
	xml := fmt.Sprintf("<domain type='test'><name>%s</name><uuid>%s</uuid><memory>1024</memory>"+
		"<os><type>hvm</type></os></domain>", id, id)

	if _, err := h.Conn.DefineDomain(t.Context(), xml); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()

		if err := h.Conn.UndefineDomain(ctx, id); err != nil {
			t.Error(err)
		}
	})

	return id
}

// BuiltInURI is the URI of a host of libvirt's test driver on which the domains with these definitions run. Each of its
// connections has a copy of its own: what is changed through one isn't seen through the others.
func BuiltInURI(t *testing.T, domains ...string) (uri string) {
	t.Helper()

	file := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(file, []byte("<node>"+strings.Join(domains, "")+"</node>"), 0o600); err != nil {
		t.Fatal(err)
	}

	return "test://" + file
}

// PCIDevices are the first so many PCI devices that the host lists.
func PCIDevices(t *testing.T, l *lab.Lab, h *lab.Host, n int) []domain.HostPart {
	t.Helper()

	var all []domain.HostPart

	for _, name := range strings.Fields(l.Virsh(t, h.Name, "nodedev-list", "--cap", "pci")) {
		// pci_0000_00_1f_2 is 0000:00:1f.2.
		part := strings.Split(strings.TrimPrefix(name, "pci_"), "_")
		all = append(all, domain.HostPart{Kind: domain.PCIDevice, ID: strings.Join(part[:3], ":") + "." + part[3]})
	}

	if len(all) < n {
		t.Fatalf("the lab has %d PCI devices, and %d are needed: %v", len(all), n, all)
	}

	return all[:n]
}
