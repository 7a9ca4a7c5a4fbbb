package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// Two VMs on one file whose paths differ by a symbolic link are told in the plan if the paths look alike, and at every
// start and every move in any case.
func TestLab_diskHasOneWriterThroughLinks(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		client, err := ssh.NewClient(ssh.Config{
			Host: l.Host(name).Address, User: "root", PrivateKeyFile: l.PrivateKeyFile(),
			KnownHostsFile: l.KnownHostsFile(), ConfigFile: "none", Agent: new(bool),
		})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = client.Close() })

		hc.SameFile = client.SameFile
	})
	on := func(host, name, file string) placement.Desired {
		d := light(t, l, name, nil)
		d.Metadata.Host = host
		d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: file}, Format: "raw"}}

		l.RemoveDomain(t, d.Spec.Name)

		return d
	}
	image := func(host, name string) string { return l.Image(t, host, lab.Name(t)+name, "raw", 1<<20) }
	link := func(host, to, name string) string {
		l.Run(t, host, "ln", "-s", to, name)
		t.Cleanup(func() {
			if err := os.Remove(l.Host(host).Path(name)); err != nil {
				t.Error(err)
			}
		})

		return name
	}

	file := image("kvm1", "-disk")
	dir := link("kvm1", "/var/lib/libvirt/images", "/var/lib/libvirt/"+lab.Name(t))
	first := create(t, f, l, on("kvm1", "first", file))

	for name, second := range map[string]placement.Desired{
		"alike": on("kvm1", "alike", dir+strings.TrimPrefix(file, "/var/lib/libvirt/images")),
		"other": on("kvm1", "other", link("kvm1", file, file+"-link")),
	} {
		parts := []string{
			fmt.Sprintf("VM %q", first.Name), second.Spec.Disks["root"].Source.File + ", the same file as " + file,
		}

		problems, err := f.CheckCreate(t.Context(), second)
		told := slices.ContainsFunc(problems, func(p inventory.Problem) bool {
			return !p.Warning && strings.Contains(p.Detail, parts[0]) && strings.Contains(p.Detail, parts[1])
		})

		if err != nil || told != (name == "alike") {
			t.Errorf("planning %s: %+v, %v", name, problems, err)
		}

		_, err = f.Create(t.Context(), second)
		tells(t, "creating "+name, err, placement.ErrShared, parts...)
	}

	// Where it would go, its path leads to the disk of another VM.
	there := create(t, f, l, on("kvm2", "there", image("kvm2", "-there")))
	link("kvm2", there.LiveSpec.Disks["root"].Source.File, file)

	blockers, err := f.LinkBlockers(t.Context(), first, f.Host("kvm2"))
	if err != nil || len(blockers) != 1 || !strings.Contains(blockers[0].Message, there.Name) {
		t.Errorf("moving: %+v, %v", blockers, err)
	}

	// Different files are no obstacle.
	if blockers, err := f.LinkBlockers(t.Context(), there, f.Host("kvm1")); err != nil || len(blockers) > 0 {
		t.Errorf("moving another one: %+v, %v", blockers, err)
	}
}
