package ssh

import (
	"context"
	"net"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentKeys asks the agent for its keys. The connection stays open for signing.
func (a *authenticator) agentKeys() []key {
	socket := a.target.agentSocket
	if socket == "" {
		if a.target.agentRequired {
			a.recordOutcome("agent", "", "SSH_AUTH_SOCK is not set")
		}
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "unix", socket)
	if err != nil {
		a.recordOutcome("agent", socket, err.Error())
		return nil
	}
	unblock := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
	disconnect := closerFunc(func() error {
		unblock()
		return conn.Close()
	})
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		_ = disconnect()
		a.recordOutcome("agent", socket, err.Error())
		return nil
	}
	a.agent = disconnect
	var keys []key
	for _, signer := range signers {
		if s, ok := signer.(xssh.AlgorithmSigner); ok {
			name := "agent key " + signer.PublicKey().Type() + " " + xssh.FingerprintSHA256(signer.PublicKey())
			keys = append(keys, key{name: name, signer: s})
		}
	}
	return keys
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }
