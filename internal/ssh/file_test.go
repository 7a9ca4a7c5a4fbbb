package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReadEnd(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	file := writeFile(t, "first\nlast\n")
	for n, want := range map[int]string{5: "last\n", 100: "first\nlast\n", 0: ""} {
		got, err := client.ReadEnd(t.Context(), file, n)
		noError(t, err)
		if string(got) != want {
			t.Errorf("the last %d bytes: got %q, want %q", n, got, want)
		}
	}
	none := filepath.Join(t.TempDir(), "it's $(none)")
	if _, err := client.ReadEnd(t.Context(), none, 5); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("a missing file: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.ReadEnd(ctx, file, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestExist(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	dir := t.TempDir()
	file := writeFile(t, "here\n")
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nothing"), dangling); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		file: true, dir: true, "/dev/null": true, filepath.Join(dir, "none"): false, "/none": false,
		"/no such place/it's $(none)": false, filepath.Join(file, "below"): false,
	}
	all := append(slices.Collect(maps.Keys(want)), dangling, filepath.Join(dangling, "below"))
	got, err := client.Exist(t.Context(), all...)
	noError(t, err)
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got, err = client.Exist(t.Context())
	noError(t, err)
	if len(got) != 0 {
		t.Errorf("%v wasn't asked for", got)
	}
	// More than fits into one command.
	var many []string
	for i := range 500 {
		many = append(many, file, fmt.Sprintf("/none/%s%d", strings.Repeat("x", 200), i))
	}
	got, err = client.Exist(t.Context(), many...)
	noError(t, err)
	if len(got) != 501 || !got[file] || got[many[999]] {
		t.Errorf("got %d paths, want 501, and one of them there", len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Exist(ctx, file); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	content := strings.Repeat("some content\n", 100_000)
	file := filepath.Join(t.TempDir(), `it's $(a) "file"`)
	noError(t, os.WriteFile(file, []byte(content), 0o600))
	got, err := client.SHA256(t.Context(), file)
	noError(t, err)
	if want := sha256.Sum256([]byte(content)); got != hex.EncodeToString(want[:]) {
		t.Errorf("got %s, want %x", got, want)
	}
	if got, err := client.SHA256(t.Context(), "/none"); !errors.Is(err, ErrProgram) {
		t.Errorf("a missing file: got %q, %v", got, err)
	}
	if _, err := client.SHA256(t.Context(), "relative"); !errors.Is(err, ErrConfig) {
		t.Errorf("a relative path: got %v", err)
	}
	refuses := newClient(t, startSSHD(t, key.authorized(), "ForceCommand echo virtfleet-sha256:00").config(t, key))
	if got, err := refuses.SHA256(t.Context(), file); !errors.Is(err, ErrProgram) {
		t.Errorf("a host that doesn't run the program: got %q, %v", got, err)
	}
}

// TestFileID: a directory keeps its identity when files come and go in it, through a symbolic link too, and no other
// directory has it.
func TestFileID(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	dir := filepath.Join(t.TempDir(), `it's $(a) "directory"`)
	noError(t, os.MkdirAll(filepath.Join(dir, "other"), 0o700))
	noError(t, os.Symlink(dir, dir+"-link"))
	id, err := client.FileID(t.Context(), dir)
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for at, same := range map[string]bool{dir: true, dir + "-link": true, dir + "/other": false} {
		if got, err := client.FileID(t.Context(), at); err != nil || got == "" || got == id != same {
			t.Errorf("%s is %q, %v; %s is %q", at, got, err, dir, id)
		}
	}
	if got, err := client.FileID(t.Context(), dir+"/none"); !errors.Is(err, ErrProgram) {
		t.Errorf("a missing file: got %q, %v", got, err)
	}
	if _, err := client.FileID(t.Context(), "relative"); !errors.Is(err, ErrConfig) {
		t.Errorf("a relative path: got %v", err)
	}
	refuses := newClient(t, startSSHD(t, key.authorized(), "ForceCommand echo virtfleet-file-id:1:2:x").config(t, key))
	if got, err := refuses.FileID(t.Context(), dir); !errors.Is(err, ErrProgram) {
		t.Errorf("a host that doesn't run the program: got %q, %v", got, err)
	}
}

// TestFileMarks: what a file is like is read through a symbolic link, and what isn't a file has no mark.
func TestFileMarks(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	client := newClient(t, startSSHD(t, key.authorized()).config(t, key))
	dir := t.TempDir()
	file, link := filepath.Join(dir, `it's $(a) "file"`), filepath.Join(dir, "link")
	noError(t, os.WriteFile(file, []byte("content"), 0o600))
	noError(t, os.Truncate(file, 1<<20))
	at := time.Unix(1700000000, 123456789)
	noError(t, os.Chtimes(file, at, at))
	noError(t, os.Symlink(file, link))
	noError(t, os.Symlink(dir+"/none", dir+"/dangling"))
	noError(t, os.Mkdir(dir+"/directory", 0o700))
	noError(t, os.Symlink("directory", dir+"/directory-link"))
	marks, err := client.FileMarks(t.Context(), file, dir, "/none", link, "/dev/null")
	noError(t, err)
	m := marks[file]
	if len(marks) != 2 || marks[link] != m {
		t.Errorf("got %+v", marks)
	}
	info, err := os.Stat(file)
	noError(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("this computer has no inodes")
	}
	if m.Bytes != 1<<20 || m.Allocated != uint64(stat.Blocks)*512 || m.Inode != stat.Ino || m.Filesystem == "" ||
		m.Modified != "1700000000.123456789" || m.Changed != fmt.Sprintf("%d.%09d", stat.Ctim.Sec, stat.Ctim.Nsec) {
		t.Errorf("got %+v, the file is %+v", m, stat)
	}
	listed, err := client.DirectoryMarks(t.Context(), dir)
	noError(t, err)
	if len(listed) != 2 || listed[file] != m || listed[link] != m {
		t.Errorf("listed are %+v, want twice %+v", listed, m)
	}
	if listed, err = client.DirectoryMarks(t.Context(), dir+"/none"); err != nil || len(listed) != 0 {
		t.Errorf("in a directory that is absent: %+v, %v", listed, err)
	}
	if listed, err = client.DirectoryMarks(t.Context(), dir+"/directory"); err != nil || len(listed) != 0 {
		t.Errorf("in an empty directory: %+v, %v", listed, err)
	}
	for _, no := range []string{file, "relative"} {
		if listed, err = client.DirectoryMarks(t.Context(), no); err == nil {
			t.Errorf("in %s: %+v", no, listed)
		}
	}
	if _, err := client.FileMarks(t.Context(), "relative"); !errors.Is(err, ErrConfig) {
		t.Errorf("a relative path: got %v", err)
	}
	refuses := newClient(t, startSSHD(t, key.authorized(), "ForceCommand echo virtfleet-file-mark:1:2").config(t, key))
	if got, err := refuses.DirectoryMarks(t.Context(), dir); !errors.Is(err, ErrProgram) {
		t.Errorf("a host that doesn't run the program: listed are %+v, %v", got, err)
	}
	if got, err := refuses.FileMarks(t.Context(), file, link); !errors.Is(err, ErrProgram) {
		t.Errorf("a host that doesn't run the program: got %+v, %v", got, err)
	}
}

// TestDirectoryMarks_hungMount: storage that hangs below a directory keeps no other file of it from being listed.
func TestDirectoryMarks_hungMount(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	client := newClient(t, startSSHD(t, key.authorized()).config(t, key))
	dir := t.TempDir()
	file, mount := filepath.Join(dir, "root"), filepath.Join(dir, "nas")
	noError(t, os.WriteFile(file, []byte("content"), 0o600))
	noError(t, os.Mkdir(mount, 0o700))
	hangs, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if os.Getenv("TF_ACC") == "" && (errors.Is(err, os.ErrNotExist) || os.Geteuid() != 0) {
		t.Skip("only root may mount a filesystem, on a computer that has FUSE: \"make test\" fails there")
	}
	noError(t, err)
	t.Cleanup(func() { _ = hangs.Close() }) // This ends who waits for the filesystem, which never answers.
	err = syscall.Mount("hangs", mount, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", hangs.Fd()))
	noError(t, err)
	t.Cleanup(func() { noError(t, syscall.Unmount(mount, syscall.MNT_DETACH)) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if listed, err := client.DirectoryMarks(ctx, dir); err != nil || len(listed) != 1 || listed[file].Bytes != 7 {
		t.Errorf("listed are %+v, %v", listed, err)
	}
}

func TestSameFile(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	file, dir := writeFile(t, "here\n"), t.TempDir()
	symbolic, hard, through := filepath.Join(dir, "it's $(a link)"), filepath.Join(dir, "hard"), filepath.Join(dir, "dir")
	for link, create := range map[string]func() error{
		symbolic: func() error { return os.Symlink(file, symbolic) },
		hard:     func() error { return os.Link(file, hard) },
		through:  func() error { return os.Symlink(filepath.Dir(file), through) },
	} {
		if err := create(); err != nil {
			t.Fatalf("%s: %v", link, err)
		}
	}
	same := []string{symbolic, hard, filepath.Join(through, filepath.Base(file))}
	got, err := client.SameFile(t.Context(), file, append(same, writeFile(t, "here\n"), dir, "/none", "/dev/null")...)
	noError(t, err)
	if !slices.Equal(got, same) {
		t.Errorf("got %q, want %q", got, same)
	}
	got, err = client.SameFile(t.Context(), "/none", "/none", file)
	noError(t, err)
	if len(got) != 0 {
		t.Errorf("no file is the same as one that isn't there: got %q", got)
	}
	dangling := filepath.Join(dir, "dangling")
	noError(t, os.Symlink(filepath.Join(dir, "nothing"), dangling))
	got, err = client.SameFile(t.Context(), file, symbolic, dangling, hard)
	if !errors.Is(err, ErrUnseen) || !strings.Contains(err.Error(), dangling) {
		t.Errorf("with a link that leads nowhere: got %v, want %v", err, ErrUnseen)
	}
	if want := []string{symbolic, hard}; !slices.Equal(got, want) {
		t.Errorf("with a link that leads nowhere: got %q, want %q", got, want)
	}
	if got, err := client.SameFile(t.Context(), dangling, file); !errors.Is(err, ErrUnseen) || len(got) != 0 {
		t.Errorf("same as a link that leads nowhere: got %q, %v", got, err)
	}
	// More than fits into one command.
	many := slices.Repeat([]string{hard, "/none/" + strings.Repeat("x", 200)}, 500)
	got, err = client.SameFile(t.Context(), file, many...)
	noError(t, err)
	if len(got) != 500 {
		t.Errorf("got %d paths, want 500", len(got))
	}
	if _, err := client.SameFile(t.Context(), file, "relative"); !errors.Is(err, ErrConfig) {
		t.Errorf("a relative path: got %v", err)
	}
	for _, setting := range []string{
		"ForceCommand echo only backups here >&2; exit 7", "ForceCommand exit 0", "MaxSessions 0",
	} {
		refuses := newClient(t, startSSHD(t, key.authorized(), setting).config(t, key))
		if _, err := refuses.SameFile(t.Context(), file, file); !errors.Is(err, ErrProgram) {
			t.Errorf("with %s: got %v, want %v", setting, err, ErrProgram)
		}
	}
	killed := newClient(t, startSSHD(t, key.authorized(), "ForceCommand kill -9 $$").config(t, key))
	if _, err := killed.SameFile(t.Context(), file, file); err == nil || errors.Is(err, ErrProgram) {
		t.Errorf("a program that is killed: got %v", err)
	}
}

// TestFiles_refuseRelativePaths: a path that isn't absolute would be looked for in the wrong place.
func TestFiles_refuseRelativePaths(t *testing.T) {
	t.Parallel()
	client := newClient(t, Config{Host: "kvm1", ConfigFile: "none"})
	for _, path := range []string{"vmlinuz", " /boot/vmlinuz", "", "./a", "/two\nlines"} {
		if _, err := client.Exist(t.Context(), "/boot", path); !errors.Is(err, ErrConfig) {
			t.Errorf("looking for %q: got %v, want %v", path, err, ErrConfig)
		}
		if _, err := client.ReadEnd(t.Context(), path, 1); !errors.Is(err, ErrConfig) {
			t.Errorf("reading %q: got %v, want %v", path, err, ErrConfig)
		}
	}
}

// TestFileScripts_asAnotherUser: what a user may not see is neither absent nor another file.
func TestFileScripts_asAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		lacks(t, "root, who can become another user")
	}
	open, err := os.MkdirTemp("/tmp", "files") //nolint:usetesting // Its parents are open to every user.
	noError(t, err)
	t.Cleanup(func() { noError(t, os.RemoveAll(open)) })
	noError(t, os.Chmod(open, 0o755)) //nolint:gosec // So is it.
	file, closed, link := filepath.Join(open, "file"), filepath.Join(open, "closed"), filepath.Join(open, "link")
	hidden := filepath.Join(closed, "link")
	noError(t, os.WriteFile(file, nil, 0o600))
	noError(t, os.Mkdir(closed, 0o700))
	noError(t, os.Symlink(file, link))
	noError(t, os.Symlink(file, hidden))
	for name, c := range map[string]struct {
		script          string
		arguments, want []string
	}{
		// A relative path, which must never come here, ends the script all the same.
		"exist": {
			existScript,
			[]string{file, hidden, closed + "-none", "none"},
			[]string{fileThere, fileUnknown, fileAbsent, fileUnknown},
		},
		"same": {
			sameFileScript,
			[]string{file, link, hidden, closed, closed + "-none", closed + "/none"},
			[]string{fileSame, fileUnknown, fileOther, fileOther, fileUnknown},
		},
		"same as one that isn't seen": {
			sameFileScript, []string{hidden, file, closed + "-none"}, []string{fileUnknown, fileOther},
		},
		"same as none": {sameFileScript, []string{closed + "-none", file, hidden}, []string{fileOther, fileOther}},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", c.script, "sh"}, c.arguments...)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		noError(t, err)
		if got := strings.Fields(string(out)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
