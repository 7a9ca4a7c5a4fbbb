package libvirt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// ownDirectory is a directory on both hosts that no storage pool covers.
func ownDirectory(t testing.TB, l *lab.Lab, hosts ...side) string {
	t.Helper()
	dir := "/var/lib/libvirt/" + lab.Name(t)
	for _, h := range hosts {
		l.Run(t, h.machine.Name, "mkdir", dir)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if _, err := h.machine.Run(ctx, "sh", "-c", "umount -q "+dir+"; rm -rf "+dir); err != nil {
				t.Error(err)
			}
			if out, err := h.machine.Virsh(ctx, "pool-list", "--all", "--name"); err != nil ||
				strings.Contains(out, poolName(dir)) {
				t.Errorf("pools left on %s: %s, %v", h.machine.Name, out, err)
			}
		})
	}
	return dir
}

// sum is what a file of a host contains, how it may be used and how large it is.
func sum(t testing.TB, l *lab.Lab, at side, file string) string {
	t.Helper()
	return l.Run(t, at.machine.Name, "sh", "-c", "sha256sum <"+file+"; stat -c '%a %u %g %s' "+file)
}

// A copy has every byte of the original, its holes and its permissions, wherever the file is.
func TestCopyFile_copiesBytesHolesAndPermissions(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	dir := ownDirectory(t, l, a, b)
	file := dir + "/a & b.img"
	quoted := "'" + file + "'"
	l.Run(t, a.machine.Name, "sh", "-c", "cd "+dir+" && dd if=/dev/urandom of=new bs=1M count=3 status=none && "+
		"dd if=/dev/urandom of=new bs=1M count=2 seek=40 status=none && truncate -s 64M new && chmod 640 new && "+
		"chown 12:34 new && mv new "+quoted+" && head -c 540672 /dev/urandom >small && : >empty")
	var seen uint64
	must(t, a.CopyFile(t.Context(), file, b.Host, 4711, func() error {
		if size := l.Run(t, b.machine.Name, "sh", "-c", "stat -c '%s %b' "+quoted); size != "4711 0\n" {
			t.Errorf("before anything is copied its length and what it takes are %s", size)
		}
		return nil
	}, func(bytes uint64) { seen = bytes }))
	if before, after := sum(t, l, a, quoted), sum(t, l, b, quoted); before != after || seen != 64<<20 {
		t.Errorf("copied %d bytes:\n%sinstead of\n%s", seen, after, before)
	}
	if used := l.Run(t, b.machine.Name, "sh", "-c", "du -k "+quoted+" | cut -f1"); len(used) > len("5120\n") {
		t.Errorf("the copy takes %s KiB", used)
	}
	for _, name := range []string{"/small", "/empty"} {
		must(t, a.CopyFile(t.Context(), dir+name, b.Host, 0, nil, nil))
		if before, after := sum(t, l, a, dir+name), sum(t, l, b, dir+name); before != after {
			t.Errorf("%s: %s instead of %s", name, after, before)
		}
	}

	l.Run(t, a.machine.Name, "sh", "-c", "echo other >"+dir+"/small")
	before := sum(t, l, b, dir+"/small")
	want(t, a.CopyFile(t.Context(), dir+"/small", b.Host, 0, nil, nil), ErrExists)
	if after := sum(t, l, b, dir+"/small"); before != after {
		t.Errorf("a file that was there is %s now", after)
	}
	want(t, a.CopyFile(t.Context(), dir+"/none", b.Host, 0, nil, nil), ErrNotFound)
}

// A directory that no pool covers is read, made and removed in, and a pool's own directory through that pool.
func TestDirectory_withAndWithoutAPool(t *testing.T) {
	t.Parallel()
	l, a, _ := sides(t)
	dir := ownDirectory(t, l, a)
	_, err := a.FreeSpace(t.Context(), dir)
	want(t, err, ErrNotFound)
	must(t, a.MakeDirectory(t.Context(), dir+"/inner", Volume{Mode: "0710"}))
	want(t, a.MakeDirectory(t.Context(), dir+"/inner", Volume{Mode: "0700"}), ErrExists)
	if mode := l.Run(t, a.machine.Name, "stat", "-c", "%a", dir+"/inner"); mode != "710\n" {
		t.Errorf("mode %s", mode)
	}
	l.Run(t, a.machine.Name, "sh", "-c", "echo x >"+dir+"/inner/x; echo 12345 >"+dir+"/file")
	d, err := a.Directory(t.Context(), dir, "file", "inner", "none")
	must(t, err)
	if len(d.Files) != 2 || d.Files["inner"].Type != "dir" || d.Files["file"].PhysicalBytes != 6 || d.Available == 0 ||
		d.Files["file"].Changed == "" {
		t.Errorf("directory: %+v", d)
	}
	if err := a.RemoveFile(t.Context(), dir+"/inner"); err == nil {
		t.Error("a directory with a file in it was removed")
	}
	for _, name := range []string{"/inner/x", "/inner", "/file", "/file"} {
		must(t, a.RemoveFile(t.Context(), dir+name))
	}
	if left := l.Run(t, a.machine.Name, "ls", dir); left != "" {
		t.Errorf("left: %s", left)
	}

	name := lab.Name(t) + ".img"
	image := l.Image(t, a.machine.Name, name, "qcow2", 8<<20)
	d, err = a.Directory(t.Context(), "/var/lib/libvirt/images", name)
	must(t, err)
	if f := d.Files[name]; f.Pool != "default" || f.CapacityBytes != 8<<20 || f.Format != "qcow2" || f.Path != image {
		t.Errorf("in a pool: %+v", f)
	}
	room, err := a.FreeSpace(t.Context(), "/var/lib/libvirt/images")
	if err != nil || room == 0 {
		t.Errorf("%d bytes free, %v", room, err)
	}
}

// A pool that another call has made for itself, or was killed with, is no storage pool of the host: it is there by
// chance. That it is removed at once, whenever it is made, says nothing about the files in the directory.
func TestDirectory_withAnotherCallsPool(t *testing.T) {
	t.Parallel()
	l, a, _ := sides(t)
	dir := ownDirectory(t, l, a)
	l.Run(t, a.machine.Name, "touch", dir+"/file")
	l.Virsh(t, a.machine.Name, "pool-create-as", poolName(dir), "dir", "--target", dir)
	if pool := l.Virsh(t, a.machine.Name, "vol-pool", dir+"/file"); !strings.Contains(pool, poolName(dir)) {
		t.Fatalf("the file is in pool %s", pool)
	}
	_, err := a.VolumeByPath(t.Context(), dir+"/file")
	want(t, err, ErrNotFound)
	_, err = a.FreeSpace(t.Context(), dir)
	want(t, err, ErrNotFound)

	_, err = call(t.Context(), a.Host, changeCall("looking into a directory"), func(c *conn) (struct{}, error) {
		defer c.useDirectory(t.Context(), dir)()
		return struct{}{}, c.inDirectory(t.Context(), dir, func(pool *golibvirt.StoragePool) error {
			if err := pool.Destroy(); err != nil {
				return err
			}
			return c.withFile(pool, "file", func(*golibvirt.StorageVol) error { return nil })
		})
	})
	want(t, err, ErrBusy)
	must(t, a.RemoveFile(t.Context(), dir+"/file"))
	if left := l.Run(t, a.machine.Name, "ls", dir); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Calls for one directory share the pool that is made for it: the last one removes it.
func TestDirectory_sharesItsPool(t *testing.T) {
	t.Parallel()
	l, a, _ := sides(t)
	dir := ownDirectory(t, l, a)
	l.Run(t, a.machine.Name, "touch", dir+"/one", dir+"/other")
	runs := 0
	_, err := call(t.Context(), a.Host, changeCall("looking into a directory"), func(c *conn) (struct{}, error) {
		defer c.useDirectory(t.Context(), dir)()
		return struct{}{}, c.inDirectory(t.Context(), dir, func(pool *golibvirt.StoragePool) error {
			runs++
			if err := a.RemoveFile(t.Context(), dir+"/one"); err != nil {
				return err
			}
			return c.withFile(pool, "other", func(*golibvirt.StorageVol) error { return nil })
		})
	})
	must(t, err)
	if pools := l.Virsh(t, a.machine.Name, "pool-list", "--name"); runs != 1 || strings.Contains(pools, poolName(dir)) {
		t.Errorf("it took %d runs, and left the pools %s", runs, pools)
	}
}

// What is written to a full disk fails, and what came of it can be removed.
func TestCopyFile_toAFullDisk(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	dir := ownDirectory(t, l, a, b)
	l.Run(t, b.machine.Name, "mount", "-t", "tmpfs", "-o", "size=4m", "none", dir)
	l.Run(t, a.machine.Name, "dd", "if=/dev/urandom", "of="+dir+"/big", "bs=1M", "count=24", "status=none")
	err := a.CopyFile(t.Context(), dir+"/big", b.Host, 0, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "host "+b.Name()) {
		t.Errorf("to a full disk: %v", err)
	}
	t.Log(err)
	must(t, b.RemoveFile(t.Context(), dir+"/big"))
	if left := l.Run(t, b.machine.Name, "ls", dir); left != "" {
		t.Errorf("left: %s", left)
	}
}

// A host that falls silent doesn't hold up the copy when its context ends, and a link that is cut ends it.
func TestCopyFile_endsWithItsContextAndItsLink(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	dir := ownDirectory(t, l, a, b)
	file := dir + "/big"
	l.Run(t, a.machine.Name, "dd", "if=/dev/zero", "of="+file, "bs=1M", "count=128", "status=none")
	for name, disturb := range map[string]func(cancel func()) (undo func()){
		"cancelled":      func(cancel func()) func() { cancel(); return func() {} },
		"source stalled": func(cancel func()) func() { undo := a.link.stall(); cancel(); return undo },
		"target stalled": func(cancel func()) func() { undo := b.link.stall(); cancel(); return undo },
		"source cut":     func(func()) func() { a.link.cut(); return func() {} },
		"target cut":     func(func()) func() { b.link.cut(); return func() {} },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		undo := func() {}
		disturbed := false
		var at time.Time
		err := a.CopyFile(ctx, file, b.Host, 0, nil, func(bytes uint64) {
			if bytes > 1<<20 && !disturbed {
				disturbed, at = true, time.Now()
				undo = disturb(cancel)
			}
		})
		took := time.Since(at)
		cancel()
		undo()
		if err == nil || took > time.Minute {
			t.Errorf("%s: ended after %v with %v", name, took, err)
		}
		t.Logf("%s: %v: %v", name, took, err)
		must(t, b.RemoveFile(t.Context(), file))
	}
	// A pool stays where its last user's connection was cut; the next call for its directory removes it.
	for _, h := range []side{a, b} {
		eventually(t, "the pool to go from "+h.machine.Name, func() bool {
			_, err := h.Directory(t.Context(), dir)
			must(t, err)
			return !strings.Contains(l.Virsh(t, h.machine.Name, "pool-list", "--name"), poolName(dir))
		})
	}
	if left := l.Run(t, b.machine.Name, "ls", dir); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Several runs read one directory at a time. Each makes, uses and removes its pool, whatever the others do with it.
func TestDirectory_ofSeveralRuns(t *testing.T) {
	t.Parallel()
	l, a, _ := sides(t)
	dir := ownDirectory(t, l, a)
	l.Run(t, a.machine.Name, "touch", dir+"/file")
	var runs errgroup.Group
	for range 4 {
		_, run, _ := sides(t)
		runs.Go(func() error {
			for range 100 {
				d, err := run.Directory(t.Context(), dir, "file")
				if err != nil {
					return err
				}
				if len(d.Files) != 1 {
					return fmt.Errorf("the directory has %v", d.Files)
				}
			}
			return nil
		})
	}
	must(t, runs.Wait())
	if pools := l.Virsh(t, a.machine.Name, "pool-list", "--name"); strings.Contains(pools, poolName(dir)) {
		t.Errorf("left the pools %s", pools)
	}
}
