package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hostKeyTypes are the host keys of a host. Two, because clients have to cope with knowing only one of them.
var hostKeyTypes = []string{"ed25519", "ecdsa"}

// sshdConfig leaves the limits as the distribution has them: MaxStartups 10:30:100, MaxSessions 10.
const sshdConfig = `# The SSH server of a lab host.
ListenAddress %s
PidFile /run/sshd.pid
%sAuthorizedKeysFile /etc/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
`

// withoutStreams is for the second host, and for those of StartHostWithoutStreams.
const withoutStreams = "AllowStreamLocalForwarding remote\n"

// createKeys makes the user's key and all host keys, and the files by which a client knows the hosts.
func (l *Lab) createKeys(ctx context.Context) error {
	if err := createKey(ctx, l.PrivateKeyFile(), "ed25519", "lab"); err != nil {
		return err
	}
	var knownHosts, config strings.Builder
	for _, h := range l.Hosts {
		lines, err := h.createKeys(ctx)
		if err != nil {
			return err
		}
		knownHosts.WriteString(lines)
		fmt.Fprintf(&config, "Host %s\n\tHostName %s\n", h.Name, h.Address)
	}
	fmt.Fprintf(&config, "Host %s 10.%d.0.*\n\tUser root\n\tIdentityFile %s\n\tIdentitiesOnly yes\n"+
		"\tUserKnownHostsFile %s\n\tStrictHostKeyChecking yes\n",
		strings.Join(l.hostNames(), " "), l.Net, l.PrivateKeyFile(), l.KnownHostsFile())
	if err := writeFile(l.KnownHostsFile(), knownHosts.String(), 0o644); err != nil {
		return err
	}
	return writeFile(l.SSHConfigFile(), config.String(), 0o644)
}

// createKeys makes the host's keys, and returns the lines by which a client knows them.
func (h *Host) createKeys(ctx context.Context) (knownHosts string, err error) {
	for _, kind := range hostKeyTypes {
		key := h.machine.path("/etc/ssh/ssh_host_" + kind + "_key")
		if err := createKey(ctx, key, kind, h.Name); err != nil {
			return "", err
		}
		public, err := os.ReadFile(key + ".pub")
		if err != nil {
			return "", fmt.Errorf("reading a host key of %s: %w", h.Name, err)
		}
		knownHosts += h.Address + "," + h.Name + " " + string(public)
	}
	return knownHosts, nil
}

func createKey(ctx context.Context, path, kind, comment string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating an SSH key: %w", err)
	}
	if err := run(ctx, "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", path); err != nil {
		return fmt.Errorf("creating an SSH key: %w", err)
	}
	return nil
}

// prepareSSH writes the files of the host's SSH server.
func (h *Host) prepareSSH(l *Lab) error {
	public, err := os.ReadFile(l.PrivateKeyFile() + ".pub")
	if err != nil {
		return fmt.Errorf("reading the user's SSH key: %w", err)
	}
	var keys strings.Builder
	for _, kind := range hostKeyTypes {
		fmt.Fprintf(&keys, "HostKey /etc/ssh/ssh_host_%s_key\n", kind)
	}
	config := fmt.Sprintf(sshdConfig, h.Address, keys.String())
	if h.withoutStreams {
		config += withoutStreams
	}
	if err := writeFile(h.machine.path("/etc/ssh/sshd_config"), config, 0o644); err != nil {
		return err
	}
	return writeFile(h.machine.path("/etc/ssh/authorized_keys"), string(public), 0o644)
}

// startSSH starts the host's SSH server; it accepts connections when this returns.
func (h *Host) startSSH(ctx context.Context) error {
	if h.running(ctx, "/run/sshd.pid") {
		return nil
	}
	// With -r it only forks for a connection. To start itself anew takes a quarter of the connection's CPU time.
	if _, err := h.machine.run(ctx, "/usr/sbin/sshd", "-r", "-E", "/var/log/sshd.log"); err != nil {
		return fmt.Errorf("starting the SSH server (log: %s): %w", h.machine.path("/var/log/sshd.log"), err)
	}
	return dialable(ctx, "the SSH server of "+h.Name, h.Address+":22")
}
