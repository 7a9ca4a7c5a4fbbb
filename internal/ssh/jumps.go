package ssh

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"sync"
)

// Jumps shares the connections to jump hosts among clients: fifty hosts behind a bastion need only one login to it. The
// zero value is ready for use.
type Jumps struct {
	mu       sync.Mutex
	clients  map[jumpKey]*sharedClient
	refusals map[jumpKey]*refusal
}

// jumpKey identifies a jump host by everything that a connection to it depends on, including the route to it.
type jumpKey [sha256.Size]byte

// sharedClient is the client of a jump host, with the number of its users.
type sharedClient struct {
	client *Client
	users  int
}

// keyOf returns the key of a host behind another host. It is a hash, because it covers secrets.
func keyOf(c *Config, t *target, behind jumpKey) jumpKey {
	a := t.algorithms
	text := fmt.Appendf(nil, "%x %q %q %q %q", behind, c.PrivateKey, c.Passphrase, c.PrivateKeyFile, c.CertificateFile)
	text = fmt.Appendf(text, " %q %q %d %q %q %q", t.alias, t.host, t.port, t.user, t.proxy, t.network)
	text = fmt.Appendf(text, " %v %v %d", t.connectTimeout, t.keepaliveInterval, t.keepaliveCountMax)
	text = fmt.Appendf(text, " %t %q %t %q %t", t.explicitKey, t.identityFiles, t.defaultFiles, t.certificateFiles,
		t.identitiesOnly)
	text = fmt.Appendf(text, " %q %t %q", t.agentSocket, t.agentRequired, t.methods)
	text = fmt.Appendf(text, " %q %t %q %q %q %t", t.checking, t.neverAsked, t.hostKeyAlias, t.userKnownHosts,
		t.globalKnownHosts, t.hashKnownHosts)
	return sha256.Sum256(fmt.Appendf(text, " %q %q %q %q %t %q %q", a.ciphers, a.macs, a.keyExchanges, a.hostKeys,
		a.hostKeysOrdered, a.publicKeys, a.certificateAuthoritySignature))
}

// acquireRoute returns the client of the last of some hosts, each of which is reached through the one before; nil if
// there are none. The caller must call release.
func (j *Jumps) acquireRoute(c *Client, hosts []*target) (last *Client, release func()) {
	release = func() {}
	var key jumpKey
	for _, t := range hosts {
		key = keyOf(&c.cfg, t, key)
		last, release = j.shareHop(key, c, t, last, release)
	}
	return last, release
}

// shareHop returns the client of one host behind another. Its release also releases the other host's client.
func (j *Jumps) shareHop(key jumpKey, c *Client, t *target, via *Client, releaseVia func()) (*Client, func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.clients == nil {
		j.clients, j.refusals = map[jumpKey]*sharedClient{}, map[jumpKey]*refusal{}
	}
	s := j.clients[key]
	if s == nil {
		if j.refusals[key] == nil {
			j.refusals[key] = &refusal{keepTrying: c.cfg.KeepTrying}
		}
		s = &sharedClient{client: &Client{
			cfg: c.cfg, log: c.log, jump: t, via: via, refused: j.refusals[key], adding: make(chan struct{}, 1),
			answerTimeout: c.answerTimeout,
		}}
		j.clients[key] = s
	}
	s.users++
	var once sync.Once
	return s.client, func() {
		once.Do(func() {
			j.mu.Lock()
			s.users--
			unused := s.users == 0
			if unused {
				delete(j.clients, key)
			}
			j.mu.Unlock()
			if unused {
				_ = s.client.Close()
			}
			releaseVia()
		})
	}
}

// dialTCP opens a stream to an address as seen from a jump host.
func (c *Client) dialTCP(ctx context.Context, host string, port int) (net.Conn, error) {
	for retried := false; ; retried = true {
		ch, err := c.sharedConnection(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := ch.link.dialTCP(ctx, host, port)
		if err == nil || ctx.Err() != nil || retried || !ch.isLost() {
			if err != nil {
				err = fmt.Errorf("through jump host %s: %w", ch.link.target, err)
			}
			return conn, err
		}
	}
}
