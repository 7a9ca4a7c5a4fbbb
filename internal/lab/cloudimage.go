package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed cloudimage.sh
var cloudImageScript string

// cloudCmdline is the command line of the kernel. What it leaves out takes QEMU without KVM seconds to load.
const cloudCmdline = kernelCmdline + " modprobe.blacklist=kvm_amd,kvm_intel,powernow_k8"

// CloudImage builds a disk image of Debian with cloud-init and the guest agent, and returns its path on this machine.
// It boots by itself. Building takes a minute and downloads packages, so that the image is kept in the user's cache,
// for all labs, until its recipe changes.
func CloudImage(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("building the cloud image: %w", err)
	}
	dir := filepath.Join(cache, "virtfleet-lab")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("building the cloud image: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	recipe := sha256.Sum256([]byte(cloudImageScript + cloudCmdline))
	file := filepath.Join(dir, fmt.Sprintf("cloud-%x.qcow2", recipe[:6]))
	if _, err := os.Stat(file); err == nil || !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	work, err := os.MkdirTemp("", "virtfleet-cloud-image-")
	if err != nil {
		return "", fmt.Errorf("building the cloud image: %w", err)
	}
	built := file + ".new"
	err = run(ctx, "bash", "-c", cloudImageScript, "cloudimage.sh", work, built, cloudCmdline)
	err = errors.Join(err, os.RemoveAll(work))
	if err != nil {
		return "", fmt.Errorf("building the cloud image: %w", err)
	}
	return file, os.Rename(built, file)
}
