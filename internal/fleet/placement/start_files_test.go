package placement

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestKeptDisks: a disk whose volume the same apply may create has no file that must be there.
func TestKeptDisks(t *testing.T) {
	t.Parallel()

	const file = "/vms/root"

	vm := &inventory.VM{PersistentSpec: &domain.Spec{Disks: map[string]domain.Disk{
		"root": {Source: domain.DiskSource{File: file}},
	}}}
	declared := domain.Spec{Disks: vm.PersistentSpec.Disks}
	volume := func(id string) map[string]string { return map[string]string{"root": id} }
	isFile := map[string]string{"disks.root.file": file}
	own := map[string]domain.OwnDisk{"root": {}}

	for name, c := range map[string]struct {
		d    Desired
		kept bool
	}{
		"no disks declared":        {kept: true},
		"disk removed":             {d: Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"other": {}}}}},
		"unknown source":           {d: Desired{Spec: declared}},
		"own disk":                 {d: Desired{Spec: declared, OwnDisks: own}, kept: true},
		"file":                     {d: Desired{Spec: declared, Files: isFile}, kept: true},
		"volume by path":           {d: Desired{Spec: declared, Volumes: volume(file)}, kept: true},
		"volume of the same apply": {d: Desired{Spec: declared, Volumes: volume("vms/root")}},
		"volume of no resource": {
			d: Desired{
				Spec: declared, Volumes: volume("vms/root"), UnplannedVolumes: map[string]bool{"vms/root": true},
			},
			kept: true,
		},
	} {
		if got := c.d.keptDisks(vm)["root"] == file; got != c.kept {
			t.Errorf("%s: kept is %t", name, got)
		}
	}
}

// TestExplainStart: only for a file that is really gone is a backup advised. Where a filesystem isn't mounted, it
// would hide newer data; where libvirt sees other files than the user who logs in, the file isn't missing.
func TestExplainStart(t *testing.T) {
	t.Parallel()

	const mounted = "dev / ext4 rw 0 0\n"

	failed := errors.New("the start failed")

	for name, c := range map[string]struct {
		file, planned string
		pool          string // of type fs, at this directory
		sees          []string
		want          []string
		backup, left  bool
	}{
		"gone": {
			file: "/vms/root", sees: []string{"/vms"}, backup: true,
			want: []string{"because its host has no file /vms/root, which is disk \"root\""},
		},
		"there":                    {file: "/vms/root", sees: []string{"/vms", "/vms/root"}},
		"moved by another run now": {file: "/vms/root", sees: []string{"/vms"}, left: true},
		"volume":                   {file: "/default-pool/root", sees: []string{"/default-pool"}},
		"not mounted": {
			file: "/vms/root", planned: "nas:/vms /vms nfs defaults 0 0\n", sees: []string{"/vms"},
			want: []string{
				"perhaps because", "/vms/root, which is disk \"root\"", "/etc/fstab has /vms, where nothing is mounted",
			},
		},
		"pool not mounted": {
			file: "/srv/root", pool: "/srv", sees: []string{"/srv"},
			want: []string{"perhaps because", "nothing is mounted at /srv on host \"h\", where storage pool \"own\""},
		},
		"unseen directory": {file: "/vms/root", want: []string{"perhaps because", "doesn't see its directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, inv := testSchedulerOf(t, map[string]inventory.HostConfig{"h": {
				URI: "test://" + testNode(t),
				Exist: func(_ context.Context, paths ...string) (map[string]bool, error) {
					there := map[string]bool{}
					for _, path := range paths {
						there[path] = false
					}

					for _, path := range c.sees {
						there[path] = true
					}

					return there, nil
				},
				ReadEnd: func(_ context.Context, path string, _ int) ([]byte, error) {
					return []byte(map[string]string{"/etc/fstab": c.planned, "/proc/self/mounts": mounted}[path]), nil
				},
				SameFile: func(context.Context, string, ...string) ([]string, error) { return nil, nil },
			}})
			h := inv.Host("h")

			err := h.Conn.CreateVolume(t.Context(), libvirt.NewVolume{
				Pool: "default-pool", Name: "root",
				Document: "<volume><name>root</name><capacity>1048576</capacity></volume>",
			})
			if err != nil {
				t.Fatal(err)
			}

			if c.pool != "" {
				err := h.Conn.DefineStoragePool(t.Context(), "own", "<pool type='fs'><name>own</name><source>"+
					"<device path='/dev/x'/></source><target><path>"+c.pool+"</path></target></pool>")
				if err == nil {
					err = h.Conn.StartStoragePool(t.Context(), "own")
				}
				if err != nil {
					t.Fatal(err)
				}
			}

			uuid, err := h.Conn.DefineDomain(t.Context(),
				"<domain type='test'><name>web</name><memory>8192</memory><os><type>hvm</type></os></domain>")
			if err != nil {
				t.Fatal(err)
			}

			vm := &inventory.VM{
				Name: "web", UUID: uuid, Host: "h", On: h, State: libvirt.Shutoff,
				PersistentSpec: &domain.Spec{Disks: map[string]domain.Disk{
					"root": {Source: domain.DiskSource{File: c.file}},
				}},
			}

			d := Desired{Metadata: domain.Metadata{RunStrategy: "Always"}}
			if c.left {
				vm.UUID = "eacb216f-84ac-4e6a-9f6d-1647b9218d2b"

				problems, doubts := p.fitsStartedDisks(t.Context(), inventory.Reply{Host: h}, vm, d)
				if len(problems) != 1 || len(doubts) > 0 || !strings.Contains(problems[0].Detail, "doesn't have the VM any more") {
					t.Errorf("the plan says %+v, %+v", problems, doubts)
				}

				return
			}

			problems, doubts := p.fitsStartedDisks(t.Context(), inventory.Reply{Host: h}, vm, d)

			for _, problem := range append(problems, doubts...) {
				if !strings.Contains(problem.Detail, "can't be started") {
					t.Errorf("the plan doesn't say that the VM can't be started: %s", problem.Detail)
				}

				if len(c.want) == 0 || problem.Warning == c.backup ||
					strings.Contains(problem.Remedy, "backup") != c.backup {
					t.Errorf("the plan says %+v", problem)
				}
			}

			if told := len(problems)+len(doubts) > 0; told != (len(c.want) > 0) {
				t.Errorf("the plan says %+v, %+v", problems, doubts)
			}

			err = p.ExplainStart(t.Context(), vm, failed)
			if !errors.Is(err, failed) {
				t.Fatalf("got %v", err)
			}

			var said *inventory.Error

			switch {
			case errors.As(err, &said) != (len(c.want) > 0):
				t.Errorf("got %v", err)
			case said != nil && strings.Contains(said.Remedy, "backup") != c.backup:
				t.Errorf("the remedy is %q", said.Remedy)
			}

			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v; want %q", err, part)
				}
			}
		})
	}
}
