package demo

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// imageName is what the image is called where it is downloaded from.
	imageName = "lab-guest.qcow2"
	// user is who examples/demo lets log in.
	user = "ops"

	readTimeout = time.Minute
)

// publish serves the guest's image over HTTP, with its checksum, as distributions do. It returns where.
func (d *demo) publish(ctx context.Context) (url string, stop func() error, err error) {
	file, err := d.lab.GuestImage()
	if err != nil {
		return "", nil, err
	}
	image, err := os.ReadFile(file)
	if err != nil {
		return "", nil, fmt.Errorf("publishing the image: %w", err)
	}
	dir := filepath.Join(d.lab.Dir, "published")
	sums := fmt.Sprintf("%x  %s\n", sha512.Sum512(image), imageName)
	err = errors.Join(os.MkdirAll(dir, 0o755), os.Link(file, filepath.Join(dir, imageName)),
		os.WriteFile(filepath.Join(dir, "SHA512SUMS"), []byte(sums), 0o644))
	if err != nil {
		return "", nil, fmt.Errorf("publishing the image: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("publishing the image: %w", err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadTimeout: readTimeout}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String() + "/", server.Close, nil
}

// login logs in to the VM over SSH, from a computer on its network. The connection stays open until the end.
func (d *demo) login(ctx context.Context) error {
	values, err := d.terraform.resource(ctx, vmAddress)
	if err != nil {
		return err
	}
	addresses, _ := values["ip_addresses"].(map[string]any)
	list, _ := addresses["lan"].([]any)
	if len(list) == 0 {
		return errors.New("the state has no address of the VM")
	}
	d.address = fmt.Sprint(list[0])
	d.say("    ssh %s@%s\n", user, d.address)
	// The server is up a moment after the agent.
	for {
		_, err = d.ssh(ctx, "-M", "-o", "ControlPersist=yes", "-o", "ConnectTimeout=10",
			"-o", "StrictHostKeyChecking=accept-new")
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
		if time.Since(d.applied) > followTimeout {
			return err
		}
	}
	for _, command := range []string{"id -un", "hostname", "cat /sys/block/vda/size"} {
		said, err := d.ssh(ctx, "--", command)
		if err != nil {
			return err
		}
		d.say("    $ %s\n    %s\n", command, said)
	}
	return nil
}

// uptime asks the guest how many seconds ago it booted, over the connection of the login.
func (d *demo) uptime(ctx context.Context) (seconds float64, err error) {
	said, err := d.ssh(ctx, "--", "cat /proc/uptime")
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(said, &seconds); err != nil {
		return 0, fmt.Errorf("reading the guest's uptime: %w", err)
	}
	return seconds, nil
}

// ssh runs ssh on a computer on the VM's network. After the login, it uses the connection that there is, and no other.
func (d *demo) ssh(ctx context.Context, args ...string) (string, error) {
	options := []string{
		"-F", "none", "-i", d.lab.PrivateKeyFile(), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + filepath.Join(d.work(), "known_hosts"), "-S", filepath.Join(d.lab.Dir, "ssh.sock"),
	}
	flags, command := args, []string{"true"}
	if args[0] == "--" {
		flags, command = []string{"-o", "ProxyCommand=false"}, args[1:]
	}
	all := append(append(append(options, flags...), user+"@"+d.address), command...)
	cmd, err := d.lab.OnLAN(ctx, "ssh", all...)
	if err != nil {
		return "", err
	}
	out, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return "", fmt.Errorf("logging in to the VM: %w: %s", err, ended.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
