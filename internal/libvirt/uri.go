package libvirt

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
)

// target is a parsed connection URI.
type target struct {
	// uri is the URI for libvirt. For a bridged target the socket is added later, see withSocket.
	uri string
	// bridged says that the stream to the daemon is our own and passes through a private unix socket.
	bridged bool
	// sockets are the paths on the host where the daemon may listen, in the order in which they are tried.
	sockets []string
	// inProcess says that libvirt's test driver runs within our own process. Its connections don't share what a
	// configuration file defined, so there is only one connection, which is never given up.
	inProcess bool
	// local says that libvirt's client opens a socket on this computer, which can't be off.
	local bool
	// bridge reaches the daemon of a target that isn't bridged over a stream of our own, for calls that require one; nil
	// if only libvirt's client can make the stream.
	bridge *target
	// network is the network of the sockets, for net.Dialer. "" means that Config.Dial opens them.
	network string
	// identity is that of a client of a daemon with TLS, otherwise nil.
	identity *tlsIdentity
}

// SessionSocket is passed to a DialFunc in place of a path if the daemon is that of the user's session: only the user's
// shell knows where it listens, and it may have to be started first.
const SessionSocket = "session"

// sshTransports are the transports of libvirt's URIs that are replaced by our own stream.
var sshTransports = []string{"ssh", "libssh", "libssh2"}

// sshParameters are the URI parameters that only concern the SSH transport, which the DialFunc handles.
var sshParameters = []string{
	"socket", "keyfile", "known_hosts", "known_hosts_verify", "no_verify", "no_tty", "sshauth", "sshconfig",
	"command", "netcat", "proxy",
}

// parseTarget parses a connection URI. Its errors wrap ErrInvalid and never show the URI's user information.
func parseTarget(uri string) (*target, error) {
	if uri == "" {
		return &target{}, nil
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("%w URI: it can't be parsed", ErrInvalid)
	}
	if u.Scheme == "" {
		return nil, fmt.Errorf("%w URI %q: it names no driver, such as qemu:///system", ErrInvalid, u.Redacted())
	}
	driver, transport, _ := strings.Cut(u.Scheme, "+")
	if !slices.Contains(sshTransports, transport) {
		return &target{
			uri: uri, inProcess: driver == "test" && transport == "" && u.Host == "", bridge: bridgeTo(driver, transport, u),
			local: driver != "test" && u.Host == "" && (transport == "" || transport == "unix"),
		}, nil
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%w URI %q: the %s transport needs a host", ErrInvalid, u.Redacted(), transport)
	}
	if u.Path == "" || u.Path == "/" {
		return nil, fmt.Errorf("%w URI %q: it has no path, such as /system", ErrInvalid, u.Redacted())
	}
	return bridgedTarget(driver, u)
}

// bridgedTarget returns the target of which libvirt's client gets a unix socket of ours.
func bridgedTarget(driver string, u *url.URL) (*target, error) {
	t := &target{bridged: true}
	parameters, values, err := splitQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w URI %q: its parameters can't be parsed", ErrInvalid, u.Redacted())
	}
	relayed := url.URL{Scheme: driver + "+unix", Path: u.Path, RawQuery: strings.Join(parameters, "&")}
	// An empty host must stay visible as "//", or libvirt misreads the path.
	t.uri = driver + "+unix://" + relayed.EscapedPath() + "?" + relayed.RawQuery
	t.sockets, err = socketPaths(driver, u, values["socket"], values["mode"])
	return t, err
}

// Where libvirt's daemons listen for other computers, if the URI doesn't say it.
const (
	tcpPort = "16509"
	tlsPort = "16514"
)

// bridgeTo returns the bridged target of a daemon that libvirt's client reaches itself: one on this computer, or over
// TCP, with TLS or without. It returns nil for others: a session's daemon, which libvirt's client starts if necessary,
// and TLS that isn't as libvirt has it by default.
func bridgeTo(driver, transport string, u *url.URL) *target {
	if driver == "test" || u.Path != "/system" {
		return nil
	}
	t, err := bridgedTarget(driver, u)
	if err != nil {
		return nil
	}
	address := func(port string) []string { return []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))} }
	switch {
	case u.Host == "" && (transport == "" || transport == "unix"):
		t.network = "unix"
	case u.Host != "" && transport == "tcp":
		t.network, t.sockets = "tcp", address(tcpPort)
	case u.Host != "" && (transport == "" || transport == "tls"):
		_, values, err := splitQuery(u.RawQuery)
		if err != nil || values["no_verify"] != "" || values["tls_priority"] != "" {
			return nil
		}
		t.network, t.sockets = "tcp", address(tlsPort)
		t.identity = newTLSIdentity(u.Hostname(), values["pkipath"])
	default:
		return nil
	}
	return t
}

// splitQuery separates the parameters that stay in libvirt's URI from the values of the others. libvirt accepts both
// "&" and ";" between parameters.
func splitQuery(query string) (keep []string, values map[string]string, err error) {
	values = map[string]string{}
	for _, parameter := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(parameter, "=")
		if name, err = url.PathUnescape(name); err != nil {
			return nil, nil, err
		}
		if value, err = url.PathUnescape(value); err != nil {
			return nil, nil, err
		}
		values[name] = value
		// If the socket is given, libvirt has no use for the mode.
		if !slices.Contains(sshParameters, name) && name != "mode" {
			keep = append(keep, parameter)
		}
	}
	return keep, values, nil
}

// socketPaths returns the paths where the host's daemon may listen. The directory of a session daemon's socket depends
// on the user's id, which a stream to a socket can't find out; only root's is known. For any other user the DialFunc
// finds the socket, and starts the daemon.
func socketPaths(driver string, u *url.URL, socket, mode string) ([]string, error) {
	if socket != "" {
		return []string{socket}, nil
	}
	monolithic, modular := "libvirt-sock", "virt"+driver+"d-sock"
	names := []string{monolithic, modular}
	switch mode {
	case "", "auto":
	case "legacy":
		names = []string{monolithic}
	case "direct":
		names = []string{modular}
	default:
		return nil, fmt.Errorf("%w URI %q: mode must be auto, legacy or direct", ErrInvalid, u.Redacted())
	}
	dirs, session := []string{"/run/libvirt", "/var/run/libvirt"}, []string(nil)
	if u.Path == "/session" {
		switch {
		case len(names) > 1:
			session = []string{SessionSocket}
		case u.User.Username() != "root":
			return nil, fmt.Errorf("%w URI %q: where a user's session daemon listens can't be known from outside, leave mode "+
				"out, or add ?socket=/run/user/<uid>/libvirt/libvirt-sock (or virtqemud-sock)", ErrInvalid, u.Redacted())
		}
		dirs = nil
		if u.User.Username() == "root" {
			dirs = []string{"/run/user/0/libvirt", "/root/.cache/libvirt"}
		}
	}
	var paths []string
	for _, dir := range dirs {
		for _, name := range names {
			paths = append(paths, path.Join(dir, name))
		}
	}
	return append(paths, session...), nil
}

// withSocket returns the URI that makes libvirt connect to that unix socket.
func (t *target) withSocket(socket string) string {
	separator := "&"
	if strings.HasSuffix(t.uri, "?") {
		separator = ""
	}
	return t.uri + separator + "socket=" + url.QueryEscape(socket)
}
