package provider

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// drivers are the libvirt drivers that the provider supports.
var drivers = []string{"qemu", "test"}

// transports are libvirt's transports to a daemon; "" is the default. libssh and libssh2 are libvirt's names for SSH
// without an external program, which the provider's own client also is.
var transports = []string{"", "unix", "ssh", "libssh", "libssh2", "tls", "tcp"}

// connectionURI is a libvirt URI, parsed as far as the provider needs.
type connectionURI struct {
	driver, transport string
	url               *url.URL
	parameters        url.Values
}

// parseURI parses a libvirt URI of a user and refuses URIs that can't work. Errors never repeat a password.
func parseURI(raw string) (*connectionURI, error) {
	c, err := readURI(raw)
	if err == nil && c.overSSH() {
		err = c.checkSSH()
	}
	return c, err
}

// checkURI returns an error for an invalid URI that the provider itself connects to.
func checkURI(raw string) error {
	_, err := parseURI(raw)
	return err
}

// checkPeerURI returns an error for an invalid URI with which one host's libvirt connects to another's. Its SSH and its
// parameters are libvirt's own.
func checkPeerURI(raw string) error {
	c, err := readURI(raw)
	if err == nil && (c.driver != "qemu" || c.transport == "unix" || c.url.Hostname() == "") {
		err = errors.New("it doesn't lead from one host to another, as \"qemu+tls://kvm1.example.net/system\" does")
	}
	return err
}

// readURI parses a URI for any program that connects.
func readURI(raw string) (*connectionURI, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // The URI itself may contain a password.
		}
		return nil, fmt.Errorf("it can't be read as a URI: %w", err)
	}
	if u.Scheme == "" {
		return nil, errors.New("it names no driver; a URI is written like \"qemu+ssh://root@host/system\", " +
			"\"qemu:///system\" or \"test:///default\"")
	}
	driver, transport, _ := strings.Cut(u.Scheme, "+")
	c := &connectionURI{driver: driver, transport: transport, url: u}
	if !slices.Contains(drivers, driver) {
		return nil, fmt.Errorf("the driver %q is not supported; supported are %s", driver, quoted(drivers))
	}
	if !slices.Contains(transports, transport) {
		return nil, fmt.Errorf("the transport %q is not supported; supported are none and %s", transport,
			quoted(transports[1:]))
	}
	if _, set := u.User.Password(); set {
		return nil, errors.New("it carries a password, which would show up in logs and the state; " +
			"set ssh.password instead")
	}
	if driver == "qemu" && u.Path != "/system" && u.Path != "/session" {
		return nil, fmt.Errorf("its path is %q; a QEMU driver has /system and /session", u.Path)
	}
	// libvirt also separates parameters by ";", which net/url refuses.
	if c.parameters, err = url.ParseQuery(strings.ReplaceAll(u.RawQuery, ";", "&")); err != nil {
		return nil, fmt.Errorf("its parameters can't be read: %w", err)
	}
	return c, nil
}

// overSSH reports whether the provider's own SSH client reaches the host.
func (c *connectionURI) overSSH() bool {
	return c.transport == "ssh" || c.transport == "libssh" || c.transport == "libssh2"
}

// local reports whether libvirt's socket is on this computer. It may still lead to another one.
func (c *connectionURI) local() bool {
	return c.driver == "qemu" && (c.transport == "" || c.transport == "unix") && c.url.Hostname() == ""
}

// refusedSSHParameters are libvirt's parameters that have no meaning here, with the reason.
var refusedSSHParameters = map[string]string{
	"command":   "the provider has its own SSH client and runs no ssh program",
	"netcat":    "the provider opens libvirt's socket through SSH itself",
	"sshauth":   "set agent, private_key_file or password in the ssh block instead",
	"sshconfig": "set config_file in the ssh block instead",
}

// knownSSHParameters are the parameters that have the same meaning as in libvirt. no_tty is accepted, because the
// provider never prompts. proxy chooses among libvirt's ways to the socket; the provider tries its own.
var knownSSHParameters = []string{
	"socket", "mode", "name", "keyfile", "known_hosts", "known_hosts_verify", "no_verify", "no_tty", "proxy",
}

func (c *connectionURI) checkSSH() error {
	if c.url.Hostname() == "" {
		return fmt.Errorf("the transport %q needs a host name: %s+%s://user@host/system", c.transport, c.driver, c.transport)
	}
	for name := range c.parameters {
		if why, refused := refusedSSHParameters[name]; refused {
			return fmt.Errorf("its parameter %q is not supported: %s", name, why)
		}
		if !slices.Contains(knownSSHParameters, name) {
			return fmt.Errorf("its parameter %q is unknown; the transport has %s", name, quoted(knownSSHParameters))
		}
	}
	_, err := c.hostKeyChecking()
	return err
}

// ssh returns the SSH settings in the URI.
func (c *connectionURI) ssh() (ssh.Config, error) {
	cfg := ssh.Config{
		Host:           c.url.Hostname(),
		User:           c.url.User.Username(),
		PrivateKeyFile: c.parameters.Get("keyfile"),
		KnownHostsFile: c.parameters.Get("known_hosts"),
		HelperURI:      c.driver + "://" + c.url.EscapedPath(),
	}
	if port := c.url.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return ssh.Config{}, fmt.Errorf("its port %q is not a number from 1 to 65535", port)
		}
		cfg.Port = int(n)
	}
	var err error
	cfg.HostKeyChecking, err = c.hostKeyChecking()
	return cfg, err
}

// exposed says why a connection isn't encrypted, or may lead to another host than the intended one; "" means that it is
// safe.
func (c *connectionURI) exposed() string {
	host := c.url.Hostname()
	address := net.ParseIP(host)
	verify := c.parameters.Get("no_verify")
	switch {
	case host == "", host == "localhost", address != nil && address.IsLoopback():
		return ""
	case c.transport == "tcp":
		return "qemu+tcp is not encrypted: any computer on the way can read and change all that is sent, secrets and the " +
			"memory of guests included. Use qemu+ssh or qemu+tls"
	case (c.transport == "tls" || c.transport == "") && verify != "" && verify != "0":
		return "with no_verify the host's certificate isn't checked: any computer that answers at its address is accepted. " +
			"Remove no_verify, and give this computer the certificate of the authority that signed the host's (cacert.pem)"
	default:
		return ""
	}
}

// hostKeyChecking translates libvirt's two parameters. With no_verify, libvirt accepts a new key but still refuses a
// changed one.
func (c *connectionURI) hostKeyChecking() (string, error) {
	switch verify := c.parameters.Get("known_hosts_verify"); verify {
	case "normal":
		return ssh.HostKeyStrict, nil
	case "auto":
		return ssh.HostKeyAcceptNew, nil
	case "ignore":
		return ssh.HostKeyInsecure, nil
	case "":
	default:
		return "", fmt.Errorf("its parameter known_hosts_verify is %q; libvirt knows \"normal\", \"auto\" and \"ignore\"",
			verify)
	}
	no := c.parameters.Get("no_verify")
	if no == "" {
		return "", nil
	}
	n, err := strconv.Atoi(no)
	if err != nil {
		return "", fmt.Errorf("its parameter no_verify is %q; it takes a number, 0 or 1", no)
	}
	if n != 0 {
		return ssh.HostKeyAcceptNew, nil
	}
	return "", nil
}

// quoted lists names for a message.
func quoted(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = strconv.Quote(n)
	}
	return strings.Join(all, ", ")
}
