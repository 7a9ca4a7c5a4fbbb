package provider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// TestSameLocalFile: files of this computer are compared as files. Of a file that can't be seen nothing is known: the
// socket may lead to another computer.
func TestSameLocalFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, hard, link, other := filepath.Join(dir, "file"), filepath.Join(dir, "hard"), filepath.Join(dir, "link"),
		filepath.Join(dir, "other")
	for _, err := range []error{
		os.WriteFile(file, nil, 0o600), os.WriteFile(other, nil, 0o600), os.Link(file, hard), os.Symlink(dir, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	through, none, below := filepath.Join(link, "file"), filepath.Join(dir, "none"), filepath.Join(file, "below")
	same, err := sameLocalFile(t.Context(), file, other, through, none, below, hard)
	if err != nil || !slices.Equal(same, []string{through, hard}) {
		t.Errorf("the same are %q, %v", same, err)
	}
	if same, err := sameLocalFile(t.Context(), none, file); !errors.Is(err, libvirt.ErrUnsupported) || len(same) > 0 {
		t.Errorf("what doesn't exist is the same as %q, %v", same, err)
	}
	circle := filepath.Join(dir, "circle")
	if err := os.Symlink(circle, circle); err != nil {
		t.Fatal(err)
	}
	if same, err := sameLocalFile(t.Context(), file, circle, hard); !errors.Is(err, libvirt.ErrUnsupported) ||
		!slices.Equal(same, []string{hard}) {
		t.Errorf("in addition to what can't be seen, the same are %q, %v", same, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := sameLocalFile(ended, file, file); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFileError: if the user who logs in can't see a file, libvirt is asked which files are the same.
func TestFileError(t *testing.T) {
	t.Parallel()
	for kind, want := range map[error]error{
		ssh.ErrUnseen: libvirt.ErrUnsupported, ssh.ErrProgram: libvirt.ErrUnsupported, ssh.ErrSessions: libvirt.ErrBusy,
	} {
		if err := fileError(&ssh.Error{Kind: kind, Err: kind}); !errors.Is(err, want) || !errors.Is(err, kind) {
			t.Errorf("%v: got %v, want also %v", kind, err, want)
		}
	}
	if err := fileError(ssh.ErrAuth); errors.Is(err, libvirt.ErrUnsupported) || fileError(nil) != nil {
		t.Errorf("another error: %v", err)
	}
}

// TestDialError: a host that denies the login answers, and so isn't off. A jump host that does says nothing of it.
func TestDialError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ssh  ssh.Error
		want error // the only one of these kinds
	}{
		{ssh.Error{Kind: ssh.ErrAuth}, libvirt.ErrDenied},
		{ssh.Error{Kind: ssh.ErrAuth, Jump: true}, libvirt.ErrUnreachable},
		{ssh.Error{Kind: ssh.ErrForwarding}, libvirt.ErrDenied},
		{ssh.Error{Kind: ssh.ErrSessions}, libvirt.ErrBusy},
		{ssh.Error{Kind: ssh.ErrHostKey}, libvirt.ErrUnreachable},
	} {
		c.ssh.Err = c.ssh.Kind
		err := dialError(t.Context(), &c.ssh)
		for _, kind := range []error{libvirt.ErrDenied, libvirt.ErrUnreachable, libvirt.ErrBusy} {
			if errors.Is(err, kind) != errors.Is(c.want, kind) || !errors.Is(err, c.ssh.Kind) {
				t.Errorf("%v, jump %t: %v is %t", c.ssh.Kind, c.ssh.Jump, kind, errors.Is(err, kind))
			}
		}
	}
	if err := dialError(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestFileComparer: a host that refuses each program is known to compare no files, until it compares some.
func TestFileComparer(t *testing.T) {
	t.Parallel()
	for kind, refuses := range map[error]bool{ssh.ErrProgram: true, ssh.ErrUnseen: false, ssh.ErrSessions: false} {
		var answer error
		asked := 0
		compare := fileComparer(func(context.Context, string, ...string) ([]string, error) {
			asked++
			return nil, answer
		})
		for i := range 3 * (maxRefusals + 1) {
			answer = &ssh.Error{Kind: kind, Err: kind}
			if i == maxRefusals+1 {
				answer = nil
			}
			none := refuses && (i == maxRefusals || i > 2*maxRefusals+1)
			_, err := compare(t.Context(), "/a", "/b")
			if !errors.Is(err, answer) || errors.Is(err, fleet.ErrComparesNone) != none || asked != i+1 {
				t.Errorf("%v: answer %d is %v, asked %d times", kind, i, err, asked)
			}
		}
	}
}

// TestConnectionURI_local: files are compared on this computer only if the libvirt of its own is asked.
func TestConnectionURI_local(t *testing.T) {
	t.Parallel()
	for raw, local := range map[string]bool{
		"qemu:///system": true, "qemu:///session": true, "qemu+unix:///system?socket=/run/x": true,
		"qemu+ssh://root@kvm1/system": false, "qemu+tls://kvm1/system": false, "qemu+tcp://kvm1/system": false,
		"qemu://kvm1/system": false, "test:///default": false,
	} {
		if uri, err := parseURI(raw); err != nil || uri.local() != local {
			t.Errorf("%s: local is %t, %v", raw, !local, err)
		}
	}
}
