package inventory

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestFileMark: files of two hosts are one if both say so of one inode, and alike if one is a copy of the other that no
// guest has written to since.
func TestFileMark(t *testing.T) {
	t.Parallel()

	is := FileMark{
		Bytes: 1 << 20, Allocated: 4096, Inode: 12, Filesystem: "ef53", Modified: "1700000000.123456789",
		Changed: "1700000001.5",
	}
	changed := func(change func(*FileMark)) FileMark {
		m := is
		change(&m)

		return m
	}
	on := func(kind string, inode uint64) FileMark {
		return changed(func(m *FileMark) { m.Filesystem, m.Inode = kind, inode })
	}
	modified := func(at string) FileMark {
		return changed(func(m *FileMark) { m.Inode, m.Modified = 13, at })
	}
	later := func(m FileMark) FileMark {
		m.Modified, m.Changed = "1700000009.1", "1700000009.1"

		return m
	}

	for name, test := range map[string]struct {
		a, b       FileMark
		one, alike bool
	}{
		"the same":                     {is, is, true, true},
		"written since":                {is, later(is), false, false},
		"written since on NFS":         {on("6969", 12), later(on("6969", 12)), true, false},
		"another file on NFS":          {on("6969", 12), later(on("6969", 13)), false, false},
		"written since on GlusterFS":   {on(fuse, 1<<40), later(on(fuse, 1<<40)), true, false},
		"a program's own numbers":      {on(fuse, 12), later(on(fuse, 12)), false, false},
		"a pool shows one":             {is, changed(func(m *FileMark) { m.Inode, m.Filesystem = 0, "" }), true, true},
		"pools show another":           {FileMark{Changed: "1.2"}, FileMark{Changed: "1.3"}, false, false},
		"nothing is known":             {FileMark{}, FileMark{}, false, false},
		"grown":                        {is, changed(func(m *FileMark) { m.Bytes++ }), false, false},
		"copied":                       {is, modified(is.Modified), false, true},
		"copied with holes":            {is, changed(func(m *FileMark) { m.Inode, m.Allocated = 13, 0 }), false, true},
		"copied to the second":         {is, modified("1700000000"), false, true},
		"written in the same second":   {is, modified("1700000000.2"), false, false},
		"copied, but grown meanwhile":  {is, changed(func(m *FileMark) { m.Inode, m.Bytes = 13, 1 }), false, false},
		"copied without the time":      {is, modified(""), false, false},
		"zeros after the point differ": {is, modified("1700000000.12"), false, false},
	} {
		for _, pair := range [][2]FileMark{{test.a, test.b}, {test.b, test.a}} {
			if got := pair[0].SameFile(pair[1]); got != test.one {
				t.Errorf("%s: one file: got %v, want %v", name, got, test.one)
			}

			if got := pair[0].Alike(pair[1]); got != test.alike {
				t.Errorf("%s: alike: got %v, want %v", name, got, test.alike)
			}
		}
	}

	if got := is.String(); got != "1Mi, of which 4Ki are occupied, last written 2023-11-14 22:13:20.123 UTC" {
		t.Errorf("got %q", got)
	}

	if got := (FileMark{}).String(); !strings.Contains(got, "unknown") {
		t.Errorf("got %q", got)
	}
}

// TestFileMarks_pause: libvirt is asked for what the user who logs in doesn't see, also while that user's programs
// hang. Once libvirt didn't answer in time either, it isn't asked for a while.
func TestFileMarks_pause(t *testing.T) {
	t.Parallel()

	const seen, listed = "/vms/root", "/pool/data"

	node := filepath.Join(t.TempDir(), "node.xml")
	pool := "<node><pool type='dir'><name>pool</name><target><path>/pool</path></target></pool></node>"

	if err := os.WriteFile(node, []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}

	inv, err := New(map[string]HostConfig{"h": {
		URI: "test://" + node,
		FileMarks: func(context.Context, ...string) (map[string]FileMark, error) {
			return map[string]FileMark{seen: {Bytes: 1}}, nil
		},
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = inv.Close() })

	h := inv.Host("h")

	err = h.Conn.CreateVolume(t.Context(), libvirt.NewVolume{
		Pool: "pool", Name: "data", Document: "<volume><name>data</name><capacity>1048576</capacity></volume>",
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, step := range []struct {
		name         string
		before       func()
		seen, listed bool
	}{
		{"both answer", func() {}, true, true},
		{"programs hang", h.files.pause, false, true},
		{"libvirt hangs, too", h.lookups.pause, false, false},
	} {
		step.before()

		marks := inv.FileMarks(t.Context(), h, []string{seen, listed})
		_, isSeen := marks[seen]
		_, isListed := marks[listed]

		if isSeen != step.seen || isListed != step.listed {
			t.Errorf("%s: %+v", step.name, marks)
		}
	}
}

// TestMarksInView_lateListing: a directory that isn't listed in time, as one with a link to storage that hangs, counts
// as not listed: the host is asked for the files that are wanted, and for files elsewhere. The next directories aren't
// listed for a while.
func TestMarksInView_lateListing(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		listed := 0
		inv := &Inventory{log: slog.New(slog.DiscardHandler)}
		h := &Host{Name: "h", Config: HostConfig{
			DirectoryMarks: func(ctx context.Context, _ string) (map[string]FileMark, error) {
				listed++

				<-ctx.Done()

				return nil, ctx.Err()
			},
			FileMarks: func(_ context.Context, paths ...string) (map[string]FileMark, error) {
				return map[string]FileMark{paths[0]: {Bytes: 1}}, nil
			},
			Exist: func(_ context.Context, paths ...string) (map[string]bool, error) {
				return map[string]bool{paths[0]: false}, nil
			},
		}}
		a := Reply{Host: h, View: NewView(nil, nil)}

		h.lookups.pause() // No storage pool helps.

		for _, file := range []string{"/images/root", "/vms/root"} {
			if got := inv.MarksInView(t.Context(), a, []string{file}); got[file].Bytes != 1 {
				t.Errorf("%s: %+v", file, got)
			}
		}

		if got := inv.FindFiles(t.Context(), h, []string{"/elsewhere"})["/elsewhere"]; got != FileAbsent {
			t.Errorf("a file of another directory: got %v, want %v", got, FileAbsent)
		}

		if listed != 1 {
			t.Errorf("%d directories were listed", listed)
		}
	})
}
