package ssh

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	xssh "golang.org/x/crypto/ssh"
)

// key is a key or certificate ready to be offered.
type key struct {
	name   string
	signer xssh.AlgorithmSigner
}

// identity is a private key as far as it could be loaded.
type identity struct {
	name    string
	path    string // "" for a key that was given as a value.
	public  xssh.PublicKey
	signer  xssh.AlgorithmSigner // nil when only the public part is known.
	problem string               // Why there is no signer.
}

// keyring gathers keys in the order in which they are offered, each once.
type keyring struct {
	keys []key
	seen map[string]bool
}

func (r *keyring) add(name string, signer xssh.AlgorithmSigner) {
	blob := string(signer.PublicKey().Marshal())
	if !r.seen[blob] {
		r.seen[blob] = true
		r.keys = append(r.keys, key{name: name, signer: signer})
	}
}

func (r *keyring) has(public xssh.PublicKey) bool {
	return public != nil && r.seen[string(public.Marshal())]
}

// keys returns every key to offer, and records those that can't be.
func (a *authenticator) keys() []key {
	identities := a.identities()
	held := a.agentKeys()
	certificates := a.certificates(identities)
	ring := &keyring{seen: map[string]bool{}}

	if a.target.explicitKey && len(identities) > 0 {
		explicit := identities[0]
		if explicit.signer != nil {
			for _, c := range certificates {
				if sameKey(c.certificate.Key, explicit.public) {
					a.addCertificate(ring, c, explicit.signer)
				}
			}
			ring.add(explicit.name, explicit.signer)
		}
	}
	// Keys of the agent that the configuration names come first, so that a full agent doesn't use up the attempts that
	// a server allows.
	for _, named := range []bool{true, false} {
		for _, k := range held {
			if isNamed(identities, certificates, k.signer.PublicKey()) == named && (named || !a.target.identitiesOnly) {
				ring.add(k.name, k.signer)
			}
		}
	}
	for _, c := range certificates {
		if signer := findSigner(identities, held, c.certificate.Key); signer != nil {
			a.addCertificate(ring, c, signer)
		} else {
			a.record("publickey", c.name, "there is no private key for this certificate")
		}
	}
	for _, id := range identities {
		switch {
		case id.signer != nil:
			ring.add(id.name, id.signer)
		case !ring.has(id.public):
			a.record("publickey", id.name, id.problem)
		}
	}
	return ring.keys
}

func sameKey(a, b xssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

// isNamed says whether a key is one that the configuration names.
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

// identities loads the private keys, explicit ones first.
func (a *authenticator) identities() []identity {
	var identities []identity
	if a.cfg.PrivateKey != "" {
		identities = append(identities, a.parse("private_key", "", []byte(a.cfg.PrivateKey)))
	}
	for _, path := range a.target.identityFiles {
		pem, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && a.target.defaultFiles && !isExplicit(a, path):
		case err != nil:
			// The public part may be there without the private one, which an agent may hold.
			id := identity{name: path, path: path, public: readPublicKey(path + ".pub"), problem: causeOf(err)}
			identities = append(identities, id)
		default:
			identities = append(identities, a.parse(path, path, pem))
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

// parse makes the most of what a key file contains.
func (a *authenticator) parse(name, path string, pem []byte) identity {
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

// parseKey parses a private key. The error never carries any of it.
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
	certificate *xssh.Certificate
}

// certificates loads those that are named and those that lie beside the keys.
func (a *authenticator) certificates(identities []identity) []certificate {
	var certificates []certificate
	load := func(path string, optional bool) {
		text, err := os.ReadFile(path)
		if err != nil {
			if !optional {
				a.record("publickey", path, causeOf(err))
			}
			return
		}
		public, _, _, _, err := xssh.ParseAuthorizedKey(text)
		cert, ok := public.(*xssh.Certificate)
		if err != nil || !ok {
			a.record("publickey", path, "not an OpenSSH certificate")
			return
		}
		certificates = append(certificates, certificate{name: path, certificate: cert})
	}
	for _, path := range a.target.certificateFiles {
		load(path, false)
	}
	for _, id := range identities {
		if id.path != "" {
			load(id.path+"-cert.pub", true)
		}
	}
	return certificates
}

func (a *authenticator) addCertificate(ring *keyring, c certificate, signer xssh.AlgorithmSigner) {
	certified, err := xssh.NewCertSigner(c.certificate, signer)
	if err != nil {
		a.record("publickey", c.name, err.Error())
		return
	}
	if s, ok := certified.(xssh.AlgorithmSigner); ok {
		ring.add(c.name, s)
	}
}
