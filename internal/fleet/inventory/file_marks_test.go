package inventory

import (
	"strings"
	"testing"
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
