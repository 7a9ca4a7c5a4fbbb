package ssh

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys checks the key of one host.
type hostKeys struct {
	target   *target
	log      *slog.Logger
	name     string // As in known_hosts, with the port if it isn't 22.
	bare     string // Without the port, or "" if that is the same or doesn't count.
	files    []string
	known    []knownKey // Of this host under its name.
	fallback []knownKey // Of this host under its bare name.

	mu       sync.Mutex // The handshake checks the key in a goroutine of its own.
	accepted []byte     // The accepted key; later key exchanges must present the same.
	verified bool       // Whether the key is the host's own, as far as known_hosts says.
	refused  error
}

// loadHostKeys reads what is known about the keys of a host.
func loadHostKeys(t *target, log *slog.Logger) (*hostKeys, error) {
	h := &hostKeys{target: t, log: log}
	h.files = slices.Concat(t.userKnownHosts, t.globalKnownHosts)
	if t.hostKeyAlias != "" {
		h.name = strings.ToLower(t.hostKeyAlias)
	} else {
		h.name = knownhosts.Normalize(net.JoinHostPort(strings.ToLower(t.host), strconv.Itoa(t.port)))
		if t.port != defaultPort {
			h.bare = strings.ToLower(t.host)
		}
	}
	if t.neverAsked {
		log.Warn("ssh_config says StrictHostKeyChecking no: the keys of new hosts are recorded, changed ones are refused",
			"address", t.address())
	}
	if err := h.readKnownHosts(); err != nil && t.checking != HostKeyInsecure {
		return nil, err
	}
	return h, nil
}

// readKnownHosts reads the known_hosts files.
func (h *hostKeys) readKnownHosts() error {
	all, err := readKnownHosts(h.files, h.log)
	if err != nil {
		return err
	}
	h.known, h.fallback = nil, nil
	for _, k := range all {
		switch {
		case k.matches(h.name):
			h.known = append(h.known, k)
		case h.bare != "" && k.matches(h.bare):
			h.fallback = append(h.fallback, k)
		}
	}
	return nil
}

// isVerified reports whether the accepted key is known to be the host's, or was just recorded as the host's. Only then
// may the host get anything that it could use elsewhere.
func (h *hostKeys) isVerified() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verified
}

// relevantKeys returns the keys that the host's key is compared with. As in ssh, keys recorded without a port count for
// any port of a host, unless keys are recorded for that port.
func (h *hostKeys) relevantKeys() []knownKey {
	trusted := func(k knownKey) bool { return k.marker != markerRevoked }
	if slices.ContainsFunc(h.known, trusted) {
		return h.known
	}
	return slices.Concat(h.known, h.fallback)
}

// algorithmOrder returns the host key algorithms to request. Those for which a key is known come first, so that a
// server with several keys presents a key that can be checked. The others follow, so that a server without these keys
// can be distinguished from a server that doesn't answer.
func (h *hostKeys) algorithmOrder() []string {
	supported := h.target.algorithms.hostKeys
	types := map[string]bool{}
	certified := false
	for _, k := range h.relevantKeys() {
		switch k.marker {
		case markerAuthority:
			certified = true
		case "":
			types[k.key.Type()] = true
		}
	}
	var certificates, known, others []string
	for _, algorithm := range supported {
		switch isCertificate := strings.Contains(algorithm, "-cert-v0"); {
		case isCertificate && (certified || h.target.checking == HostKeyInsecure):
			certificates = append(certificates, algorithm)
		case isCertificate:
		case types[keyTypeOf(algorithm)] && !h.target.algorithms.hostKeysOrdered:
			known = append(known, algorithm)
		default:
			others = append(others, algorithm)
		}
	}
	if all := slices.Concat(certificates, known, others); len(all) > 0 {
		return all
	}
	return supported // Only certificates without a known authority: the check reports that.
}

// algorithmRank orders algorithms as ssh does, so that a new host is recorded with the key that ssh would record.
func algorithmRank(algorithm string) int {
	for i, family := range []string{"ed25519", "ecdsa", "rsa"} {
		if strings.Contains(algorithm, family) {
			return i
		}
	}
	return math.MaxInt32 // Newer algorithms, which ssh doesn't prefer yet.
}

// keyTypeOf returns the type of the keys that an algorithm signs with: RSA keys have several algorithms.
func keyTypeOf(algorithm string) string {
	switch algorithm {
	case xssh.KeyAlgoRSASHA256, xssh.KeyAlgoRSASHA512:
		return xssh.KeyAlgoRSA
	}
	return algorithm
}

// checkKey checks the key that the host presents. It is called again at each later key exchange.
func (h *hostKeys) checkKey(key xssh.PublicKey) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	blob := key.Marshal()
	if h.accepted != nil && bytes.Equal(h.accepted, blob) {
		return nil
	}
	err := h.decideKey(key)
	if h.verified = err == nil; !h.verified && h.target.checking == HostKeyInsecure {
		h.log.Warn("host key not verified: host_key_checking is insecure, an attacker could answer in the host's name",
			"address", h.target.address(), "key", key.Type(), "fingerprint", xssh.FingerprintSHA256(key))
		err = nil
	}
	if err != nil {
		h.refused = err
		return err
	}
	h.accepted = blob
	return nil
}

// refusalCause returns why the key was refused, or nil.
func (h *hostKeys) refusalCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

func (h *hostKeys) decideKey(key xssh.PublicKey) error {
	relevant := h.relevantKeys()
	if cert, ok := key.(*xssh.Certificate); ok {
		return h.decideCertificate(cert, relevant)
	}
	err := h.decidePlain(key, relevant)
	if err == nil || err.Problem != HostKeyUnknown {
		return err.orNil()
	}
	if h.target.checking != HostKeyAcceptNew {
		return err
	}
	return h.recordKey(key)
}

// recordKey records a new host's key. Another process may connect to the host at the same time and get another key: so
// known_hosts is read once more while no other process writes to it.
func (h *hostKeys) recordKey(key xssh.PublicKey) error {
	var refusal *HostKeyError
	err := recordHostKey(h.target, h.name, key, h.log, func() error {
		if err := h.readKnownHosts(); err != nil {
			return err
		}
		if refusal = h.decidePlain(key, h.relevantKeys()); refusal != nil && refusal.Problem == HostKeyUnknown {
			return nil
		}
		return errKnownMeanwhile
	})
	switch {
	case errors.Is(err, errKnownMeanwhile):
		return refusal.orNil()
	case err != nil:
		return h.refuseKey(HostKeyNotRecorded, key, nil, err)
	}
	return nil
}

// decidePlain checks a key against the known keys only, without regard to the setting for unknown keys. It returns nil
// for a known key.
func (h *hostKeys) decidePlain(key xssh.PublicKey, relevant []knownKey) *HostKeyError {
	if k := findKey(relevant, markerRevoked, key); k != nil {
		return h.refuseKey(HostKeyRevoked, key, k, nil)
	}
	if findKey(relevant, "", key) != nil {
		return nil
	}
	// A key of another type may just be newer, but a key of the same type contradicts: name the latter if there is one.
	var contradiction *knownKey
	for i, k := range h.known {
		sameType := k.key.Type() == key.Type()
		if k.marker == "" && (contradiction == nil || sameType && contradiction.key.Type() != key.Type()) {
			contradiction = &h.known[i]
		}
	}
	if contradiction != nil {
		return h.refuseKey(HostKeyChanged, key, contradiction, nil)
	}
	return h.refuseKey(HostKeyUnknown, key, nil, nil)
}

func (h *hostKeys) decideCertificate(cert *xssh.Certificate, relevant []knownKey) error {
	checker := &xssh.CertChecker{
		IsHostAuthority: func(authority xssh.PublicKey, _ string) bool {
			return findKey(relevant, markerAuthority, authority) != nil
		},
		IsRevoked: func(cert *xssh.Certificate) bool {
			return findKey(relevant, markerRevoked, cert.Key) != nil || findKey(relevant, markerRevoked,
				cert.SignatureKey) != nil
		},
	}
	for _, key := range []xssh.PublicKey{cert.Key, cert.SignatureKey} {
		if k := findKey(relevant, markerRevoked, key); k != nil {
			return h.refuseKey(HostKeyRevoked, key, k, nil)
		}
	}
	if findKey(relevant, "", cert.Key) != nil {
		return nil // As in ssh, a certificate that isn't valid counts as its plain key.
	}
	var err error
	if allowed := h.target.algorithms.certificateAuthoritySignature; !slices.Contains(allowed, cert.Signature.Format) {
		err = fmt.Errorf("its authority signed it with %s, which is not among CASignatureAlgorithms (%s)",
			cert.Signature.Format, strings.Join(allowed, ", "))
	} else {
		err = checker.CheckHostKey(net.JoinHostPort(h.certificatePrincipal(cert), "22"), nil, cert)
	}
	if err != nil {
		return h.refuseKey(HostKeyCertificate, cert, nil, err)
	}
	return nil
}

// certificatePrincipal returns the name under which to look for the host in a certificate: the certificate's pattern
// that matches the host's name, because the library compares names literally.
func (h *hostKeys) certificatePrincipal(cert *xssh.Certificate) string {
	name := strings.ToLower(cmp.Or(h.target.hostKeyAlias, h.target.host))
	for _, pattern := range cert.ValidPrincipals {
		if matchWildcard(pattern, name) {
			return pattern
		}
	}
	return name
}

func (h *hostKeys) refuseKey(problem HostKeyProblem, key xssh.PublicKey, known *knownKey, cause error) *HostKeyError {
	e := &HostKeyError{
		Problem: problem, Name: h.name, KeyType: key.Type(), Fingerprint: xssh.FingerprintSHA256(key),
		Files: slices.DeleteFunc(slices.Clone(h.files), isMissing), NeverAsked: h.target.neverAsked, Err: cause,
	}
	if own := h.target.userKnownHosts; !slices.ContainsFunc(own, func(file string) bool { return !isMissing(file) }) {
		e.Missing = own
	}
	if known != nil {
		e.File, e.Line = known.file, known.line
		e.KnownType, e.KnownFingerprint = known.key.Type(), xssh.FingerprintSHA256(known.key)
	}
	return e
}

func isMissing(file string) bool {
	_, err := os.Stat(file)
	return err != nil
}

func findKey(keys []knownKey, marker string, key xssh.PublicKey) *knownKey {
	for i, k := range keys {
		if k.marker == marker && sameKey(k.key, key) {
			return &keys[i]
		}
	}
	return nil
}
