package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

var errRefused = errors.New("refused")

// methodServer is an SSH server for the methods that a real one can't be configured for without accounts of its own. It
// only authenticates: every channel is answered by an echo.
type methodServer struct {
	listener net.Listener
	addr     netip.AddrPort
	host     testKey
}

// noAuthServer lets every user in.
func noAuthServer() *xssh.ServerConfig { return &xssh.ServerConfig{NoClientAuth: true} }

func startMethodServer(
	t *testing.T, config *xssh.ServerConfig, reject ...func(xssh.NewChannel) bool,
) *methodServer {
	t.Helper()
	s := &methodServer{host: newKey(t, "ed25519")}
	config.AddHostKey(s.host.signer)
	s.listener = serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { serveMethods(conn, config, reject) })
	s.addr = netip.MustParseAddrPort(s.listener.Addr().String())
	return s
}

func serveMethods(conn net.Conn, config *xssh.ServerConfig, reject []func(xssh.NewChannel) bool) {
	_, channels, requests, err := xssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go xssh.DiscardRequests(requests)
	for offered := range channels {
		if len(reject) > 0 && reject[0](offered) {
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go xssh.DiscardRequests(requests)
		go func() {
			_, _ = io.Copy(channel, channel)
			_ = channel.Close()
		}()
	}
}

// forwardTCP connects a channel to where its client wants to go.
func forwardTCP(t *testing.T, offered xssh.NewChannel) {
	t.Helper()
	var to struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	noError(t, xssh.Unmarshal(offered.ExtraData(), &to))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		_ = offered.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := offered.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	go xssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(conn, channel)
		_ = conn.Close()
	}()
	go func() {
		_, _ = io.Copy(channel, conn)
		_ = channel.Close()
	}()
}

func (s *methodServer) config(t *testing.T) Config {
	t.Helper()
	known := fmt.Sprintf("[127.0.0.1]:%d ", s.addr.Port()) + s.host.authorized()
	return Config{
		Host: "127.0.0.1", Port: int(s.addr.Port()), User: "alice", Agent: new(bool),
		KnownHostsFile: writeFile(t, known),
		ConfigFile:     writeFile(t, "IdentityFile none\n"), Logger: testLogger(t),
		ConnectTimeout: patience,
	}
}

// startAgent runs an SSH agent that holds keys, and returns its socket.
func startAgent(t *testing.T, keys ...agent.AddedKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		noError(t, ring.Add(key))
	}
	return serveAgent(t, ring)
}

func serveAgent(t *testing.T, ring agent.Agent) string {
	t.Helper()
	path := t.TempDir() + "/agent.sock"
	serveSocket(t, path, func(conn net.Conn) { _ = agent.ServeAgent(ring, conn) })
	return path
}
