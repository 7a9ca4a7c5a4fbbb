package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

const (
	// defaultHost is the name of the only host if hosts isn't set.
	defaultHost = "default"
	// envURI and envLibvirtURI are the environment variables with the only host's URI, for configurations without one.
	envURI        = "VIRTFLEET_URI"
	envLibvirtURI = "LIBVIRT_DEFAULT_URI"
)

// hosts returns the hosts of the provider block. It connects to no host, but checks that required files exist. base has
// what the block doesn't set.
func (m *model) hosts(base ssh.Config) (map[string]fleet.HostConfig, diag.Diagnostics) {
	var diags diag.Diagnostics
	base.Jumps = &ssh.Jumps{}
	if m.Hosts == nil {
		uri, source := m.onlyURI()
		cfg, d := m.host(hostModel{URI: types.StringValue(uri)}, source, path.Root("uri"), base)
		diags.Append(d...)
		return map[string]fleet.HostConfig{defaultHost: cfg}, diags
	}
	hosts := make(map[string]fleet.HostConfig, len(m.Hosts))
	for _, name := range value.Keys(m.Hosts) {
		at := path.Root("hosts").AtMapKey(name)
		cfg, d := m.host(m.Hosts[name], attrpath.Text(at), at, base)
		diags.Append(d...)
		hosts[name] = cfg
	}
	return hosts, diags
}

// onlyURI returns the URI of the only host and the URI's source. "" leaves the choice to libvirt.
func (m *model) onlyURI() (uri, source string) {
	if uri := m.URI.ValueString(); uri != "" {
		return uri, "uri"
	}
	for _, env := range []string{envURI, envLibvirtURI} {
		if uri := os.Getenv(env); uri != "" {
			return uri, "environment variable " + env
		}
	}
	return "", "uri"
}

// host returns the fleet's host for one entry. source is the entry's name in messages.
func (m *model) host(
	h hostModel, source string, at path.Path, base ssh.Config,
) (fleet.HostConfig, diag.Diagnostics) {
	var diags diag.Diagnostics
	cfg := fleet.HostConfig{
		URI:           h.URI.ValueString(),
		Labels:        value.StringMap(h.Labels),
		Devices:       deviceClasses(h.Devices),
		Unschedulable: !h.Schedulable.IsNull() && !h.Schedulable.ValueBool(),
		Fenced:        h.Fenced.ValueBool(),

		OvercommitGuestOverhead: h.OvercommitGuestOverhead.ValueBool(),

		StorageOverprovisioningFactor: h.StorageOverprovisioningFactor.ValueFloat64(),

		MigrationAddress: h.MigrationAddress.ValueString(),
		PeerURI:          h.PeerURI.ValueString(),
	}
	if limit := h.MemoryLimit.Bytes(); limit != nil {
		cfg.MemoryLimit = *limit
	}
	cfg.MemoryReserve = h.MemoryReserve.Bytes()
	if cfg.URI == "" {
		return cfg, nil
	}
	uri, err := parseURI(cfg.URI)
	if err != nil {
		diags.AddAttributeError(at, "Invalid libvirt URI", uriProblem(source, cfg.URI, err))
		return cfg, diags
	}
	if why := uri.exposed(); why != "" && !cfg.Fenced {
		diags.AddAttributeWarning(at, "Connection to a host isn't secure", fmt.Sprintf("%s: %s.", source, why))
	}
	if uri.local() {
		cfg.SameFile = sameLocalFile
	}
	if !uri.overSSH() {
		return cfg, diags
	}
	if cfg.Fenced {
		// The files that are needed to reach a fenced host may be gone, too.
		if m.overSSH(&cfg, h, uri, source, at, base).HasError() {
			cfg.Dial = func(context.Context, string) (net.Conn, error) {
				return nil, &kindError{kind: libvirt.ErrUnreachable, err: errors.New("the host is fenced")}
			}
		}
		return cfg, nil
	}
	diags.Append(m.overSSH(&cfg, h, uri, source, at, base)...)
	return cfg, diags
}

// overSSH sets the SSH client that reaches the host.
func (m *model) overSSH(
	cfg *fleet.HostConfig, h hostModel, uri *connectionURI, source string, at path.Path, base ssh.Config,
) diag.Diagnostics {
	var diags diag.Diagnostics
	fromURI, err := uri.ssh()
	if err != nil {
		diags.AddAttributeError(at, "Invalid libvirt URI", uriProblem(source, cfg.URI, err))
		return diags
	}
	settings := sshOver(h.SSH, sshWithURI(fromURI, sshOver(m.SSH, base)))
	client, err := ssh.NewClient(settings)
	if err != nil {
		diags.Append(m.sshProblem(h, fromURI, source, at, err))
		return diags
	}
	if settings.HostKeyChecking == ssh.HostKeyInsecure {
		diags.AddAttributeWarning(at, "Host keys are not checked", fmt.Sprintf(
			"%s is reached with host_key_checking = %q: any computer that answers at its address is accepted and sees what "+
				"is sent. Only the password is kept back, because it requires a known key. Use %q or %q.",
			source, ssh.HostKeyInsecure, ssh.HostKeyStrict, ssh.HostKeyAcceptNew))
	}
	cfg.Dial, cfg.Close = dialer(client), client.Close
	cfg.ReadEnd = func(ctx context.Context, path string, n int) ([]byte, error) {
		text, err := client.ReadEnd(ctx, path, n)
		return text, fileError(err)
	}
	cfg.Exist, cfg.SameFile, cfg.SHA256 = client.Exist, fileComparer(client.SameFile), client.SHA256
	cfg.FileID = client.FileID
	cfg.FileMarks = func(ctx context.Context, paths ...string) (map[string]fleet.FileMark, error) {
		seen, err := client.FileMarks(ctx, paths...)
		return fileMarks(seen), err
	}
	cfg.DirectoryMarks = func(ctx context.Context, dir string) (map[string]fleet.FileMark, error) {
		seen, err := client.DirectoryMarks(ctx, dir)
		if err != nil {
			return nil, err
		}
		return fileMarks(seen), nil
	}
	cfg.Tunnel = tunnels(settings)
	return diags
}

func fileMarks(seen map[string]ssh.FileMark) map[string]fleet.FileMark {
	marks := make(map[string]fleet.FileMark, len(seen))
	for path, m := range seen {
		marks[path] = fleet.FileMark{
			Bytes: m.Bytes, Allocated: m.Allocated, Inode: m.Inode, Modified: m.Modified, Changed: m.Changed,
			Filesystem: m.Filesystem,
		}
	}
	return marks
}

// maxRefusals is after how many refusals in a row a host is known to run no programs.
const maxRefusals = 3

// fileComparer returns ssh.Client.SameFile with an error that is libvirt.ErrUnsupported if the host can't compare all
// of the files, and fleet.ErrComparesNone if the host runs no programs. Such a host is asked each time nevertheless: a
// host that is short of memory may refuse a program, too.
func fileComparer(compare sameFile) sameFile {
	var refusals atomic.Int32
	return func(ctx context.Context, path string, paths ...string) ([]string, error) {
		same, err := compare(ctx, path, paths...)
		switch {
		case err == nil:
			refusals.Store(0)
		case errors.Is(err, ssh.ErrProgram) && refusals.Add(1) > maxRefusals:
			return same, &kindError{kind: fleet.ErrComparesNone, err: err}
		}
		return same, fileError(err)
	}
}

// sameFile returns those of the paths that lead to the file of path.
type sameFile func(ctx context.Context, path string, paths ...string) ([]string, error)

// fileError adds libvirt's kind to an error of ssh.Client.SameFile and ssh.Client.ReadEnd.
func fileError(err error) error {
	switch {
	case errors.Is(err, ssh.ErrProgram), errors.Is(err, ssh.ErrUnseen):
		return &kindError{kind: libvirt.ErrUnsupported, err: err}
	case errors.Is(err, ssh.ErrSessions): // Another time it can.
		return &kindError{kind: libvirt.ErrBusy, err: err}
	}
	return err
}

// sameLocalFile compares files of this computer. Its error is libvirt.ErrUnsupported if one can't be seen: another user
// has it, or the socket leads to another computer.
func sameLocalFile(ctx context.Context, path string, paths ...string) ([]string, error) {
	type outcome struct {
		same []string
		err  error
	}
	done := make(chan outcome, 1)
	go func() { // A network filesystem that hangs holds up no caller.
		file, unseen := os.Stat(path)
		var same []string
		for _, p := range paths {
			other, err := os.Stat(p)
			switch {
			case err == nil && file != nil && os.SameFile(file, other):
				same = append(same, p)
			case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
				unseen = err
			}
		}
		if unseen != nil {
			unseen = &kindError{kind: libvirt.ErrUnsupported, err: unseen}
		}
		done <- outcome{same, unseen}
	}()
	select {
	case o := <-done:
		return o.same, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tunnels returns a function that opens the connections for migrations. They are separate from the connections to
// libvirt, because a migration's data would delay libvirt's answers.
func tunnels(settings ssh.Config) func() (migration.Tunnel, error) {
	settings.Jumps = nil // Nor do they share jump hosts with them.
	return func() (migration.Tunnel, error) {
		client, err := ssh.NewClient(settings)
		if err != nil {
			return nil, err
		}
		return client, nil
	}
}

// dialer opens streams through an SSH client. Its errors have the kinds that the libvirt package handles: libvirt tries
// another socket, unless the host itself is unreachable.
func dialer(client *ssh.Client) libvirt.DialFunc {
	return func(ctx context.Context, socket string) (net.Conn, error) {
		conn, err := dialSocket(ctx, client, socket)
		return conn, dialError(ctx, err)
	}
}

// dialError gives a failure to open a stream the kind that libvirt knows. A host whose jump host denies the login is as
// unreachable as one whose jump host is off.
func dialError(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*ssh.Error](err)
	jump := ok && failed.Jump
	switch {
	case err == nil, errors.Is(err, ssh.ErrSocket):
		return err
	case jump && errors.Is(err, ssh.ErrAuth):
	case errors.Is(err, ssh.ErrAuth) || errors.Is(err, ssh.ErrForwarding):
		return &kindError{kind: libvirt.ErrDenied, err: err}
	case errors.Is(err, ssh.ErrSessions):
		return &kindError{kind: libvirt.ErrBusy, err: err}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return err
	}
	return &kindError{kind: libvirt.ErrUnreachable, err: err}
}

func dialSocket(ctx context.Context, client *ssh.Client, socket string) (net.Conn, error) {
	if socket == libvirt.SessionSocket {
		return client.DialSession(ctx)
	}
	return client.DialUnix(ctx, socket)
}

// kindError adds a kind to an error without changing the error's text.
type kindError struct{ kind, err error }

// Error returns the text of the error.
func (e *kindError) Error() string { return e.err.Error() }

// Unwrap returns the kind and the error.
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// owner returns the name of this run in marks and locks, by which users recognize it: "alice@desk (pid 4711)".
func owner() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s (pid %d)", name, host, os.Getpid())
}
