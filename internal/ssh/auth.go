package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	xssh "golang.org/x/crypto/ssh"
)

// credential is a credential that is offered to the server once.
type credential struct {
	method string // As the protocol names it.
	name   string
	tried  bool
	auth   func(c *credential) xssh.AuthMethod
	// outcome says what happened to the credential, as seen on our side; "" if only the server answered.
	outcome string
}

var errNoAgent = errors.New("the agent must be used, and there is none that answers")

// authenticator offers credentials one at a time, so that it knows the outcome of each.
type authenticator struct {
	ctx    context.Context // The handshake's callback gets no context.
	cfg    *Config
	target *target
	isJump bool
	// verified reports whether the host's key is known to be its own.
	verified func() bool
	broken   *atomic.Bool // Whether the connection has broken.
	started  bool         // Whether the server has asked for authentication.

	agent       io.Closer
	stages      []func() ([]*credential, error) // They gather further credentials after all others were tried.
	credentials []*credential
	current     *credential
	partial     int // How many credentials were accepted without being sufficient.
	attempts    []AuthAttempt
	offered     []string
}

func newAuthenticator(
	ctx context.Context, cfg *Config, t *target, isJump bool, verified func() bool, broken *atomic.Bool,
) *authenticator {
	a := &authenticator{ctx: ctx, cfg: cfg, target: t, isJump: isJump, verified: verified, broken: broken}
	a.stages = a.allStages()
	return a
}

// close closes the connection to the agent.
func (a *authenticator) close() {
	if a.agent != nil {
		_ = a.agent.Close()
	}
}

// nextCredential records the outcome of the previous credential and returns the next one. It is the handshake's
// callback.
func (a *authenticator) nextCredential(state *xssh.ClientAuthContext) (xssh.AuthMethod, error) {
	if a.broken.Load() {
		return nil, errConnectionLost // Otherwise the handshake would continue with the next credential.
	}
	a.started = true
	a.settleCredential(len(state.PartialSuccessMethods) > a.partial)
	a.partial = len(state.PartialSuccessMethods)
	a.offered = state.AllowedMethods
	for {
		for _, c := range a.credentials {
			if !c.tried && slices.Contains(a.offered, c.method) {
				c.tried, a.current = true, c
				return c.auth(c), nil
			}
		}
		if len(a.stages) == 0 {
			return nil, ErrAuth
		}
		gather := a.stages[0]
		a.stages = a.stages[1:]
		more, err := gather()
		if err != nil {
			return nil, err
		}
		a.credentials = append(a.credentials, more...)
	}
}

// settleCredential records the outcome of the current credential.
func (a *authenticator) settleCredential(accepted bool) {
	c := a.current
	if c == nil {
		return
	}
	a.current = nil
	outcome := c.outcome
	switch {
	case accepted:
		outcome = "accepted, but the server wants more"
	case outcome == "":
		outcome = "refused"
	}
	a.recordOutcome(c.method, c.name, outcome)
}

func (a *authenticator) recordOutcome(method, credential, outcome string) {
	a.attempts = append(a.attempts, AuthAttempt{Method: method, Credential: credential, Outcome: outcome})
}

// failureOfAll returns an error that describes everything that was tried.
func (a *authenticator) failureOfAll(err error) error {
	a.settleCredential(false)
	for _, c := range a.credentials {
		if !c.tried {
			outcome := "not offered by the server"
			if slices.Contains(a.offered, c.method) {
				outcome = "not tried any more"
			}
			a.recordOutcome(c.method, c.name, outcome)
		}
	}
	if errors.Is(err, ErrAuth) {
		err = nil // Our own error for having no more credentials.
	}
	return &AuthError{User: a.target.user, Attempts: a.attempts, Offered: a.offered, Err: err}
}

// allStages returns the functions that gather the credentials, in the order in which they are tried: the provider's
// explicit settings first, then the order of ssh. Each function is called only when its turn comes: an agent that hangs
// doesn't matter if a key before it is accepted.
func (a *authenticator) allStages() []func() ([]*credential, error) {
	var stages []func() ([]*credential, error)
	methods := slices.Clone(a.target.methods)
	if i := slices.Index(methods, methodInteractive); i >= 0 && a.hostPassword() == "" {
		// Without a password no question can be answered, but a server may ask none and call the user's telephone instead.
		methods = append(slices.Delete(methods, i, i+1), methodInteractive)
	}
	for _, method := range methods {
		switch method {
		case methodKey:
			keys := &keyStages{authenticator: a}
			stages = append(stages, keys.gatherExplicit, keys.gatherOthers)
		default:
			stages = append(stages, func() ([]*credential, error) { return a.secretCredentials(method), nil })
		}
	}
	return stages
}

// hostPassword returns the password for this host, "" if there is none.
func (a *authenticator) hostPassword() string {
	if a.isJump {
		return ""
	}
	return a.cfg.Password
}

// secretCredentials returns credentials that would let a wrong host impersonate the user.
func (a *authenticator) secretCredentials(method string) []*credential {
	if a.hostPassword() == "" && !slices.Contains(a.offered, method) {
		return nil // This is not worth a line in an error.
	}
	c := &credential{method: method, auth: a.keyboardInteractive}
	if method == methodPassword {
		if a.hostPassword() == "" {
			return nil
		}
		c.auth = func(*credential) xssh.AuthMethod { return xssh.Password(a.hostPassword()) }
	}
	if !a.verified() {
		if a.hostPassword() != "" {
			a.recordOutcome(method, "", "not tried, because the host's key isn't verified: an attacker could read the password")
		}
		return nil
	}
	return []*credential{c}
}

// keyboardInteractive answers the first round of hidden questions with the password.
func (a *authenticator) keyboardInteractive(c *credential) xssh.AuthMethod {
	answered := false
	c.outcome = "refused without asking anything"
	return xssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
		if len(questions) == 0 {
			return nil, nil
		}
		if a.hostPassword() == "" {
			c.outcome = fmt.Sprintf("there is no password to answer %q with", shortenPrompt(questions[0]))
			return nil, ErrAuth
		}
		if answered {
			c.outcome = fmt.Sprintf("asked again after the password: %q", shortenPrompt(questions[0]))
			return nil, ErrAuth
		}
		if i := slices.Index(echos, true); i >= 0 {
			c.outcome = fmt.Sprintf("asked for something other than a password: %q", shortenPrompt(questions[i]))
			return nil, ErrAuth
		}
		answered = true
		c.outcome = "password refused"
		return slices.Repeat([]string{a.hostPassword()}, len(questions)), nil
	})
}

// shortenPrompt makes a server's question safe and short enough to print.
func shortenPrompt(s string) string {
	s = oneLine(s)
	if len(s) > 80 {
		s = s[:80]
	}
	return s
}

// authMethod offers one key and observes whether the server asked for its signature.
func (k key) authMethod(c *credential) xssh.AuthMethod {
	c.outcome = "not accepted by the server"
	if k.note != "" {
		c.outcome += ": " + k.note
	}
	return xssh.PublicKeys(&observedSigner{AlgorithmSigner: k.signer, algorithms: k.algorithms, credential: c})
}

// observedSigner signs with the allowed algorithms, and records the outcome of the signature in its credential.
type observedSigner struct {
	xssh.AlgorithmSigner
	algorithms []string
	credential *credential
}

// Algorithms returns the algorithms that the key may sign with.
func (s *observedSigner) Algorithms() []string { return s.algorithms }

// Sign signs as the key does.
func (s *observedSigner) Sign(rand io.Reader, data []byte) (*xssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm signs as the key does.
func (s *observedSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*xssh.Signature, error) {
	signature, err := s.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
	s.credential.outcome = "known to the server, but the signature was refused"
	if err != nil {
		s.credential.outcome = fmt.Sprintf("known to the server, but signing failed: %v", err)
	}
	return signature, err
}
