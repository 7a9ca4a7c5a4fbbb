package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/guest"
)

// GuestImage builds a disk image with the lab's guest, once for each lab, and returns its path on this machine. It
// stands in for the cloud image of a distribution: it boots by itself, makes the users that cloud-init's medium
// names, and lets them log in over SSH.
func (l *Lab) GuestImage() (string, error) {
	file := l.guestFile("image.qcow2")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", fmt.Errorf("building the guest's image: %w", err)
	}
	unlock, err := lockDir(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil || !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	if err := guest.BuildImage(file, GuestCmdline); err != nil {
		return "", fmt.Errorf("building the guest's image: %w", err)
	}
	return file, nil
}

// OnLAN prepares a command on a machine that is on the guests' network, as an operator's computer may be. This machine
// isn't.
func (l *Lab) OnLAN(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	return l.store.command(ctx, name, args...)
}

// LANAddress is an address on the guests' network, by its last number. The DHCP server gives out 10 to 250.
func (l *Lab) LANAddress(number int) string { return fmt.Sprintf("%s.%d", l.lanPrefix(), number) }
