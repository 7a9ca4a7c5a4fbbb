package fleet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Two hosts share a directory. What its volumes may grow to is limited over both: of two runs that create one at the
// same time, each on another host, one is refused. An image's copy there is one file: it stays while the other host has
// an overlay of it in a pool of its own, and while the image stays on the other host.
func TestLab_sharedPoolIsOnePool(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	limited := func(_ string, hc *inventory.HostConfig) { hc.StorageOverprovisioningFactor = 1.5 }
	runs := []*Fleet{labFleet(t, l, "first run", limited), labFleet(t, l, "second run", limited)}
	dir, pool := t.TempDir(), lab.Name(t) // What isn't libvirt's own is the same on all hosts of the lab.
	s := runs[0].Storage()
	hosts := s.Hosts.Named("kvm1", "kvm2")

	failed := s.ApplyPool(t.Context(), hosts, storage.Pool{Name: pool, Type: "dir", Path: &dir},
		storage.PoolSettings{Shared: true})
	if len(failed) > 0 {
		t.Fatal(failed)
	}

	t.Cleanup(func() {
		for name, err := range s.RemovePool(context.WithoutCancel(t.Context()), hosts, pool, nil) {
			t.Errorf("host %s: %v", name, err)
		}
	})

	most := poolCapacity(t, l, "kvm1", pool) / 10 * 8 // Two of 0.8 are more than 1.5.
	errs := make([]error, len(runs))

	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() {
			_, errs[i] = run.Storage().CreateVolume(t.Context(), hosts[i].Name, storage.Disk{
				Pool: pool, Name: []string{"a", "b"}[i], Bytes: most,
			})
		})
	}
	fleettest.AwaitAll(t, &wg)

	made := filepath.Join(dir, "a")
	if errs[0] != nil {
		errs[0], errs[1], made = errs[1], errs[0], filepath.Join(dir, "b")
	}

	if errs[0] != nil || !errors.Is(errs[1], storage.ErrOvercommitted) {
		t.Fatalf("the runs end with %v and %v", errs[0], errs[1])
	}

	hasOnly(t, l, "kvm1", dir, made)

	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}

	image, err := storage.Fetch(t.Context(), storage.Source{File: file}, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.Close() }()

	ref := storage.Ref{Pool: pool, Name: "base-" + image.SHA256[:12]}
	if failed := s.Put(t.Context(), hosts.Named("kvm1"), ref, image); len(failed) > 0 {
		t.Fatal(failed)
	}

	s.RefreshElsewhere(t.Context(), hosts, "kvm1", pool)

	own := lab.Name(t) + "-own"
	diskPool(t, l, "kvm2", own, directory(t, l, "kvm2"))

	overlay := storage.Ref{Pool: own, Name: "root"}
	if _, err := s.CreateVolume(t.Context(), "kvm2", storage.Disk{Pool: own, Name: "root", Overlay: &ref}); err != nil {
		t.Fatal(err)
	}

	failed = s.RemoveCopies(t.Context(), hosts.Named("kvm1"), nil, ref)
	if !errors.Is(failed["kvm1"], storage.ErrInUse) {
		t.Errorf("removing it while the other host has an overlay: %v", failed)
	}

	if err := s.DeleteUnused(t.Context(), hosts, "kvm2", overlay, ""); err != nil {
		t.Fatal(err)
	}

	if failed := s.RemoveCopies(t.Context(), hosts.Named("kvm1"), hosts.Named("kvm2"), ref); len(failed) > 0 {
		t.Error(failed)
	}

	hasOnly(t, l, "kvm1", dir, made, filepath.Join(dir, ref.Name))

	if failed := s.RemoveCopies(t.Context(), hosts, nil, ref); len(failed) > 0 {
		t.Error(failed)
	}

	hasOnly(t, l, "kvm2", dir, made)

	// What an interrupted upload has left is sent again although a host that may use the pool doesn't answer: no VM can
	// have used a file without its header. Of another file that isn't known.
	template := filepath.Join(t.TempDir(), "template")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", template, "1M")

	fetched, err := storage.Fetch(t.Context(), storage.Source{File: template}, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fetched.Close() }()

	silent, err := libvirt.Open(libvirt.Config{Name: "silent", URI: "test:///no/such/file"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()

	s.Hosts = hostset.NewSet(append(hosts, hostset.Host{Name: "silent", Conn: silent})...)
	ref = storage.Ref{Pool: pool, Name: "template-" + fetched.SHA256[:12]}
	file = filepath.Join(dir, ref.Name)
	l.Run(t, "kvm1", "sh", "-c", "head -c 70000 "+template+" | tr '\\0' x >"+file)

	if failed := s.Put(t.Context(), hosts.Named("kvm1"), ref, fetched); len(failed) != 1 {
		t.Errorf("a file that is shorter than the image was sent again while a host doesn't answer: %v", failed)
	}

	hasOnly(t, l, "kvm1", dir, made, file)
	l.Run(t, "kvm1", "truncate", "-s", "0", file)
	l.Run(t, "kvm1", "truncate", "-s", "64K", file)

	if failed := s.Put(t.Context(), hosts.Named("kvm1"), ref, fetched); len(failed) > 0 {
		t.Errorf("what an interrupted upload has left, while a host doesn't answer: %v", failed)
	}

	l.Run(t, "kvm1", "cmp", template, file)
	l.Virsh(t, "kvm1", "vol-delete", "--pool", pool, ref.Name)
}
