package ssh

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	defaultPort = 22
	// Timeouts: a host that is up answers within a second, ten are enough for slow hosts; a dead peer is detected after 15
	// s * (3 + 1) = 60 s.
	defaultConnectTimeout    = 10 * time.Second
	defaultKeepaliveInterval = 15 * time.Second
	defaultKeepaliveCountMax = 3
	// noFile stands for no file at all, as in ssh.
	noFile = "none"
)

// defaultIdentities are the files that ssh tries if none is named, in its order.
var defaultIdentities = []string{
	"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk",
}

// target is one host on the route with everything known about how to reach it.
type target struct {
	alias string // As the user named it.
	host  string // As it is dialled and as known_hosts names it.
	port  int
	user  string
	jump  string // ProxyJump, or "".
	proxy string // ProxyCommand with its tokens expanded, or "".

	network           string
	connectTimeout    time.Duration
	keepaliveInterval time.Duration // 0: no keepalive.
	keepaliveCountMax int

	explicitKey      bool     // Whether the identities come from the provider's settings.
	identityFiles    []string // Expanded.
	defaultFiles     bool     // Whether identityFiles are defaults, which needn't exist.
	certificateFiles []string
	identitiesOnly   bool
	agentSocket      string // "" for none.
	agentRequired    bool   // Whether the user asked for the agent explicitly.

	methods    []string // The authentication methods, in the order in which they are tried.
	algorithms algorithms

	checking         string
	neverAsked       bool // Whether ssh_config turns host key checking off, which isn't followed.
	hostKeyAlias     string
	userKnownHosts   []string
	globalKnownHosts []string
	hashKnownHosts   bool

	home, localUser string
}

// String returns user@host:port.
func (t *target) String() string { return t.user + "@" + t.address() }

func (t *target) address() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// isPlainHost and isPlainUser refuse, as ssh does, what a shell or a program could take for something else: names
// become part of the commands of ssh_config.
func isPlainHost(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, "'`\"$\\;&<>|(){}") &&
		!strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
}

func isPlainUser(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, "'`\";&<>|(){}") &&
		!strings.Contains(name, " -") && !strings.HasSuffix(name, `\`) && !strings.ContainsFunc(name, unicode.IsControl)
}

// validate checks what can be checked without reading files or connecting to a host.
func (c Config) validate() error {
	switch {
	case c.Host == "" || strings.ContainsAny(c.Host, " \t\r\n@/") || !isPlainHost(c.Host):
		return configError("host %q: not a host name or address", c.Host)
	case !isPlainUser(c.User):
		return configError("user %q: not the name of a user", c.User)
	case c.Port < 0 || c.Port > 65535:
		return configError("port %d: must be between 1 and 65535", c.Port)
	case c.PrivateKey != "" && c.PrivateKeyFile != "":
		return configError("private_key and private_key_file exclude each other")
	case c.ConnectTimeout < 0:
		return configError("connect timeout %s: must not be negative", c.ConnectTimeout)
	case c.KeepaliveCountMax < 0:
		return configError("keepalive count %d: must not be negative", c.KeepaliveCountMax)
	}
	known := []string{"", HostKeyStrict, HostKeyAcceptNew, HostKeyInsecure}
	if !slices.Contains(known, c.HostKeyChecking) {
		return settingError("host_key_checking", fmt.Errorf("%q: must be one of %s", c.HostKeyChecking,
			strings.Join(known[1:], ", ")))
	}
	for _, hop := range c.JumpHosts {
		if _, err := parseHop(hop); err != nil {
			return settingError("jump_hosts", err)
		}
	}
	home, _ := homeDir()
	files := []struct{ setting, path string }{
		{"private_key_file", c.PrivateKeyFile}, {"certificate_file", c.CertificateFile}, {"config_file", c.ConfigFile},
	}
	for _, f := range files {
		if f.path == "" || f.path == noFile && f.setting == "config_file" || strings.ContainsAny(f.path, "%$") {
			continue
		}
		if _, err := os.Stat(expandHome(f.path, home)); err != nil {
			return settingError(f.setting, err)
		}
	}
	if c.PrivateKey == "" {
		return nil
	}
	if _, problem := parseKey([]byte(c.PrivateKey), c.Passphrase); problem != nil {
		return settingError("private_key", problem)
	}
	return nil
}

// resolve determines how to reach a host, from the configuration, ssh_config and the defaults. A jump host has the
// name, user and port of its own entry, and the same credentials and host key settings from the configuration as the
// host itself.
func (c Config) resolve(ctx context.Context, h hop, jumpHost bool) (*target, error) {
	home, err := homeDir()
	if err != nil {
		return nil, configError("finding the home directory: %w", err)
	}
	localUser := "root"
	if u, err := user.Current(); err == nil {
		localUser = u.Username
	}
	reader := &configReader{ctx: ctx, home: home, original: h.host, user: h.user, port: h.port, localUser: localUser}
	if err := reader.readFiles(c.configFiles(home)); err != nil {
		return nil, err
	}
	o := reader.options
	t := &target{alias: h.host, home: home, localUser: localUser, network: "tcp"}
	if err := t.resolveAddress(o, h); err != nil {
		return nil, err
	}
	if err := t.resolveProxy(o); err != nil {
		return nil, err
	}
	if err := c.resolveTimes(t, o); err != nil {
		return nil, err
	}
	if err := c.resolveIdentities(t, o, jumpHost); err != nil {
		return nil, err
	}
	if err := c.resolveHostKeys(t, o); err != nil {
		return nil, err
	}
	if err := t.resolveAlgorithms(o); err != nil {
		return nil, err
	}
	t.methods = authMethods(o)
	return t, nil
}

// resolveAddress determines the user, and the address of the host's SSH server.
func (t *target) resolveAddress(o options, h hop) (err error) {
	t.user = cmp.Or(h.user, o.firstArgument("user"), t.localUser)
	if t.port = h.port; t.port == 0 {
		if t.port, err = configInt(o, "port", defaultPort); err != nil {
			return err
		}
	}
	t.host = h.host
	if name := o.firstArgument("hostname"); name != "" {
		if t.host, err = t.expandTokens(name); err != nil {
			return configError("HostName for %s: %w", h.host, err)
		}
	}
	t.host = strings.ToLower(t.host)
	switch o.firstArgument("addressfamily") {
	case "inet":
		t.network = "tcp4"
	case "inet6":
		t.network = "tcp6"
	}
	t.hostKeyAlias = strings.ToLower(o.firstArgument("hostkeyalias"))
	return nil
}

// resolveProxy determines the jump hosts, or the command, through which the host is reached.
func (t *target) resolveProxy(o options) (err error) {
	if t.jump, err = t.expandJump(o.firstArgument("proxyjump")); err != nil {
		return configError("ProxyJump for %s: %w", t.alias, err)
	}
	command := o.firstArgument("proxycommand")
	if command == "" || command == noFile {
		return nil
	}
	if t.proxy, err = t.expandTokens(command); err != nil {
		return configError("ProxyCommand for %s: %w", t.alias, err)
	}
	if o.firstArgument("proxyusefdpass") == "yes" {
		return configError("ssh_config sets ProxyUseFdpass for %s, which is not supported: use ProxyJump or"+
			" jump_hosts, or another config_file", t.alias)
	}
	return nil
}

// The authentication methods that are implemented, by their names in the protocol.
const (
	methodKey         = "publickey"
	methodInteractive = "keyboard-interactive"
	methodPassword    = "password"
)

// authMethods returns the authentication methods that ssh_config allows, in its order.
func authMethods(o options) []string {
	methods := []string{methodKey, methodInteractive, methodPassword}
	if preferred := o.firstArgument("preferredauthentications"); preferred != "" {
		methods = slices.DeleteFunc(strings.Split(preferred, ","), func(method string) bool {
			return !slices.Contains(methods, method)
		})
	}
	switches := map[string]string{
		methodKey: "pubkeyauthentication", methodInteractive: "kbdinteractiveauthentication",
		methodPassword: "passwordauthentication",
	}
	return slices.DeleteFunc(methods, func(method string) bool { return o.firstArgument(switches[method]) == "no" })
}

func (c Config) configFiles(home string) []configFile {
	userDir := filepath.Join(home, ".ssh")
	switch c.ConfigFile {
	case noFile:
		return nil
	case "":
		return []configFile{
			{path: filepath.Join(userDir, "config"), includeDir: userDir, guarded: true},
			{path: "/etc/ssh/ssh_config", includeDir: "/etc/ssh"},
		}
	}
	return []configFile{{path: expandHome(c.ConfigFile, home), includeDir: userDir, required: true}}
}

func (c Config) resolveTimes(t *target, o options) (err error) {
	if t.connectTimeout = c.ConnectTimeout; t.connectTimeout == 0 {
		if t.connectTimeout, err = configDuration(o, "connecttimeout", defaultConnectTimeout); err != nil {
			return err
		}
	}
	if t.connectTimeout == 0 {
		t.connectTimeout = defaultConnectTimeout
	}
	if t.keepaliveInterval = c.KeepaliveInterval; t.keepaliveInterval == 0 {
		t.keepaliveInterval, err = configDuration(o, "serveraliveinterval", defaultKeepaliveInterval)
		if err != nil {
			return err
		}
	}
	t.keepaliveInterval = max(t.keepaliveInterval, 0)
	if t.keepaliveCountMax = c.KeepaliveCountMax; t.keepaliveCountMax == 0 {
		t.keepaliveCountMax, err = configInt(o, "serveralivecountmax", defaultKeepaliveCountMax)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c Config) resolveIdentities(t *target, o options, jumpHost bool) (err error) {
	t.identitiesOnly = o.firstArgument("identitiesonly") == "yes"
	files := o["identityfile"]
	if slices.Contains(files, noFile) {
		files = nil
	} else if len(files) == 0 {
		files, t.defaultFiles = defaultIdentities, true
	}
	certificates := o["certificatefile"]
	if t.explicitKey = c.PrivateKey != "" || c.PrivateKeyFile != ""; t.explicitKey && !jumpHost {
		files, certificates = nil, nil
	}
	if c.PrivateKeyFile != "" {
		files = append([]string{c.PrivateKeyFile}, files...)
	}
	if c.CertificateFile != "" {
		certificates = append([]string{c.CertificateFile}, certificates...)
	}
	if t.identityFiles, err = t.expandAll("IdentityFile", files); err != nil {
		return err
	}
	if t.certificateFiles, err = t.expandAll("CertificateFile", certificates); err != nil {
		return err
	}
	t.agentRequired = c.Agent != nil && *c.Agent
	if c.Agent != nil && !*c.Agent {
		return nil
	}
	t.agentSocket = os.Getenv("SSH_AUTH_SOCK")
	switch agent := o.firstArgument("identityagent"); {
	case agent == "" || agent == "SSH_AUTH_SOCK":
	case agent == noFile:
		t.agentSocket = ""
	case strings.HasPrefix(agent, "$") && !strings.HasPrefix(agent, "${"):
		t.agentSocket = os.Getenv(agent[1:])
	default:
		if t.agentSocket, err = t.expandFileName(agent); err != nil {
			return configError("IdentityAgent: %w", err)
		}
	}
	return nil
}

func (c Config) resolveHostKeys(t *target, o options) (err error) {
	t.checking = c.HostKeyChecking
	if t.checking == "" {
		switch o.firstArgument("stricthostkeychecking") {
		case "accept-new":
			t.checking = HostKeyAcceptNew
		case "no", "off":
			// This setting is meant to avoid questions about new hosts. Its other meaning, to accept changed keys, is not
			// followed: the user may have written it long ago for another host. host_key_checking is for users who want that.
			t.checking, t.neverAsked = HostKeyAcceptNew, true
		default: // The setting "ask" asks the user, which isn't possible here.
			t.checking = HostKeyStrict
		}
	}
	if file := o.firstArgument("revokedhostkeys"); file != "" && file != noFile && t.checking != HostKeyInsecure {
		return configError("ssh_config sets RevokedHostKeys for %s, which is not supported: mark revoked keys with"+
			" @revoked in known_hosts, or use another config_file", t.alias)
	}
	t.hashKnownHosts = o.firstArgument("hashknownhosts") == "yes"
	users, globals := o["userknownhostsfile"], o["globalknownhostsfile"]
	if users == nil {
		users = []string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}
	}
	if globals == nil {
		globals = []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}
	}
	if c.KnownHostsFile != "" {
		users = []string{c.KnownHostsFile}
	}
	isNone := func(file string) bool { return file == noFile }
	users, globals = slices.DeleteFunc(slices.Clone(users), isNone), slices.DeleteFunc(slices.Clone(globals), isNone)
	if t.userKnownHosts, err = t.expandAll("UserKnownHostsFile", users); err != nil {
		return err
	}
	t.globalKnownHosts, err = t.expandAll("GlobalKnownHostsFile", globals)
	return err
}
