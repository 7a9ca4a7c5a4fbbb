package ssh

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// key is a key or certificate ready to be offered.
type key struct {
	name       string
	signer     xssh.AlgorithmSigner
	algorithms []string // The algorithms that it may sign with.
	note       string   // Why a server may refuse it.
}

// identity is a private key, as much of it as could be loaded.
type identity struct {
	name    string
	path    string // "" for a key that was given as a value.
	public  xssh.PublicKey
	signer  xssh.AlgorithmSigner // nil when only the public part is known.
	problem string               // Why there is no signer.
}

// keyStages gathers the keys in the order in which they are offered, each once. ssh offers named certificates, then
// named keys of the agent, the agent's other keys, and last the keys in files.
type keyStages struct {
	*authenticator
	loaded       bool
	identities   []identity
	certificates []certificate
	seen         map[string]bool
	gathered     []*credential
}

// loadFiles reads the files, once.
func (s *keyStages) loadFiles() {
	if !s.loaded {
		s.loaded, s.seen = true, map[string]bool{}
		s.identities = s.loadIdentities()
		s.certificates = s.loadCertificates(s.identities)
	}
}

// takeGathered returns the credentials that were gathered since the last call.
func (s *keyStages) takeGathered() []*credential {
	gathered := s.gathered
	s.gathered = nil
	return gathered
}

// gatherExplicit gathers the key of the provider's settings, with its certificates.
func (s *keyStages) gatherExplicit() ([]*credential, error) {
	s.loadFiles()
	if !s.target.explicitKey || len(s.identities) == 0 || s.identities[0].signer == nil || s.target.agentRequired {
		return nil, nil
	}
	s.addExplicit()
	return s.takeGathered(), nil
}

func (s *keyStages) addExplicit() {
	if !s.target.explicitKey || len(s.identities) == 0 || s.identities[0].signer == nil {
		return
	}
	told := s.identities[0]
	for _, c := range s.certificates {
		if sameKey(c.certificate.Key, told.public) {
			s.addCertificate(c, told.signer)
		}
	}
	s.addKey(told.name, told.signer, "")
}

// gatherOthers gathers all other keys, and records those that can't be offered.
func (s *keyStages) gatherOthers() ([]*credential, error) {
	held := s.agentKeys()
	if s.agent == nil && s.target.agentRequired {
		return nil, errNoAgent
	}
	s.addExplicit()
	for _, c := range s.certificates {
		if !c.implied {
			s.addHeldCertificate(c, held)
		}
	}
	// Keys of the agent that the configuration names come first, so that a full agent doesn't use up the attempts that
	// a server allows.
	for _, named := range []bool{true, false} {
		for _, k := range held {
			is := isNamed(s.identities, s.certificates, k.signer.PublicKey())
			if is == named && (named || !s.target.identitiesOnly) {
				s.addKey(k.name, k.signer, "")
			}
		}
	}
	for _, c := range s.certificates {
		if c.implied {
			s.addHeldCertificate(c, held)
		}
	}
	for _, id := range s.identities {
		switch {
		case id.signer != nil:
			s.addKey(id.name, id.signer, "")
		case id.public == nil || !s.seen[string(id.public.Marshal())]:
			s.recordOutcome(methodKey, id.name, id.problem)
		}
	}
	return s.takeGathered(), nil
}

// addKey adds a key, unless it was added before or none of its algorithms is allowed.
func (s *keyStages) addKey(name string, signer xssh.AlgorithmSigner, note string) {
	blob := string(signer.PublicKey().Marshal())
	if s.seen[blob] {
		return
	}
	s.seen[blob] = true
	algorithms := s.target.algorithms.signatureAlgorithms(signer.PublicKey())
	if len(algorithms) == 0 {
		s.recordOutcome(methodKey, name, "PubkeyAcceptedAlgorithms of ssh_config doesn't allow a key of type "+
			signer.PublicKey().Type())
		return
	}
	k := key{name: name, signer: signer, algorithms: algorithms, note: note}
	s.gathered = append(s.gathered, &credential{method: methodKey, name: name, auth: k.authMethod})
}

func (s *keyStages) addHeldCertificate(c certificate, held []key) {
	signer := findSigner(s.identities, held, c.certificate.Key)
	if signer == nil {
		s.recordOutcome(methodKey, c.name, "there is no private key for this certificate")
		return
	}
	s.addCertificate(c, signer)
}

func (s *keyStages) addCertificate(c certificate, signer xssh.AlgorithmSigner) {
	certified, err := xssh.NewCertSigner(c.certificate, signer)
	if err != nil {
		s.recordOutcome(methodKey, c.name, err.Error())
		return
	}
	if algorithmic, ok := certified.(xssh.AlgorithmSigner); ok {
		s.addKey(c.name, algorithmic, c.outOfDate(time.Now()))
	}
}

func sameKey(a, b xssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

// isNamed reports whether the configuration names a key.
func isNamed(identities []identity, certificates []certificate, public xssh.PublicKey) bool {
	for _, id := range identities {
		if sameKey(id.public, public) {
			return true
		}
	}
	for _, c := range certificates {
		if sameKey(c.certificate, public) {
			return true
		}
	}
	return false
}

func findSigner(identities []identity, held []key, public xssh.PublicKey) xssh.AlgorithmSigner {
	for _, id := range identities {
		if id.signer != nil && sameKey(id.public, public) {
			return id.signer
		}
	}
	for _, k := range held {
		if sameKey(k.signer.PublicKey(), public) {
			return k.signer
		}
	}
	return nil
}

// loadIdentities loads the private keys, explicit ones first.
func (a *authenticator) loadIdentities() []identity {
	var identities []identity
	if a.cfg.PrivateKey != "" {
		identities = append(identities, a.parseKeyFile("private_key", "", []byte(a.cfg.PrivateKey)))
	}
	for _, path := range a.target.identityFiles {
		pem, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && a.target.defaultFiles && !isExplicit(a, path):
		case err != nil:
			// The public key may exist without the private key, which an agent may hold.
			id := identity{name: path, path: path, public: readPublicKey(path + ".pub"), problem: causeOf(err)}
			identities = append(identities, id)
		default:
			id := a.parseKeyFile(path, path, pem)
			if info, err := os.Stat(path); err == nil && id.signer != nil {
				if problem := keyPermissionProblem(info); problem != "" {
					id.signer, id.problem = nil, problem
				}
			}
			identities = append(identities, id)
		}
	}
	return identities
}

func isExplicit(a *authenticator, path string) bool {
	return a.cfg.PrivateKeyFile != "" && len(a.target.identityFiles) > 0 && a.target.identityFiles[0] == path
}

// causeOf drops the path from a file system error: the credential's name has it already.
func causeOf(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return err.Error()
}

// parseKeyFile returns as much as can be read of a key file.
func (a *authenticator) parseKeyFile(name, path string, pem []byte) identity {
	id := identity{name: name, path: path}
	signer, err := parseKey(pem, a.cfg.Passphrase)
	var missing *xssh.PassphraseMissingError
	switch {
	case err == nil:
		id.public = signer.PublicKey()
		if id.signer, _ = signer.(xssh.AlgorithmSigner); id.signer == nil {
			id.problem = "a key of type " + id.public.Type() + " is not supported"
		}
		return id
	case errors.As(err, &missing):
		id.public = missing.PublicKey
		id.problem = "the key is encrypted and there is no passphrase"
	case errors.Is(err, x509.IncorrectPasswordError):
		id.problem = "the passphrase doesn't open the key"
	default:
		if id.public, _, _, _, _ = xssh.ParseAuthorizedKey(pem); id.public != nil {
			id.problem = "this is a public key, and the agent doesn't hold its private key"
			return id
		}
		id.problem = fmt.Sprintf("not a usable private key: %v", err)
	}
	if id.public == nil && path != "" {
		id.public = readPublicKey(path + ".pub")
	}
	return id
}

func readPublicKey(path string) xssh.PublicKey {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	public, _, _, _, err := xssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return public
}

// parseKey parses a private key. The error never contains any of it.
func parseKey(pem []byte, passphrase string) (xssh.Signer, error) {
	signer, err := xssh.ParsePrivateKey(pem)
	if missing := (*xssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		if passphrase == "" {
			return nil, err
		}
		return xssh.ParsePrivateKeyWithPassphrase(pem, []byte(passphrase))
	}
	return signer, err
}

// certificate is a user certificate from a file.
type certificate struct {
	name        string
	implied     bool // Whether it was found by its key's name, rather than named.
	certificate *xssh.Certificate
}

// outOfDate says why a server whose clock is right will refuse the certificate because of its times; "" if it won't.
func (c certificate) outOfDate(now time.Time) string {
	const form = "2006-01-02 15:04:05 MST"
	at := func(seconds uint64) time.Time {
		return time.Unix(int64(min(seconds, math.MaxInt64)), 0) //nolint:gosec // Bounded.
	}
	switch {
	case c.certificate.ValidBefore != xssh.CertTimeInfinity && !now.Before(at(c.certificate.ValidBefore)):
		return "the certificate expired at " + at(c.certificate.ValidBefore).UTC().Format(form)
	case now.Before(at(c.certificate.ValidAfter)):
		return "the certificate isn't valid before " + at(c.certificate.ValidAfter).UTC().Format(form)
	}
	return ""
}

// loadCertificates loads the named certificates or, if there are none, those whose names follow from the keys', as ssh
// does.
func (a *authenticator) loadCertificates(identities []identity) []certificate {
	var certificates []certificate
	load := func(path string, implied bool) {
		text, err := os.ReadFile(path)
		if err != nil {
			if !implied {
				a.recordOutcome(methodKey, path, causeOf(err))
			}
			return
		}
		public, _, _, _, err := xssh.ParseAuthorizedKey(text)
		cert, ok := public.(*xssh.Certificate)
		if err != nil || !ok {
			a.recordOutcome(methodKey, path, "not an OpenSSH certificate")
			return
		}
		certificates = append(certificates, certificate{name: path, implied: implied, certificate: cert})
	}
	for _, path := range a.target.certificateFiles {
		load(path, false)
	}
	if len(a.target.certificateFiles) > 0 {
		return certificates
	}
	for _, id := range identities {
		if id.path != "" {
			load(id.path+"-cert.pub", true)
		}
	}
	return certificates
}
