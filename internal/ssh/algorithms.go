package ssh

import (
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// algorithms are the algorithms that a connection may use, most preferred first.
type algorithms struct {
	ciphers, macs, keyExchanges   []string
	hostKeys                      []string
	hostKeysOrdered               bool     // The order is the user's, whatever keys known_hosts has.
	publicKeys                    []string // For logging in, including the names for certificates.
	certificateAuthoritySignature []string // For an authority's signatures of host certificates.
}

// resolveAlgorithms sets the algorithms that ssh_config allows and this package implements. Algorithms that are known
// to be weak are used only if ssh_config names them.
func (t *target) resolveAlgorithms(o options) error {
	secure, weak := xssh.SupportedAlgorithms(), xssh.InsecureAlgorithms()
	a := &t.algorithms
	lists := []struct {
		keyword      string
		to           *[]string
		secure, weak []string
	}{
		{"ciphers", &a.ciphers, secure.Ciphers, weak.Ciphers},
		{"macs", &a.macs, secure.MACs, weak.MACs},
		{"kexalgorithms", &a.keyExchanges, secure.KeyExchanges, weak.KeyExchanges},
		{"hostkeyalgorithms", &a.hostKeys, preferredHostKeys(secure.HostKeys), weak.HostKeys},
		{
			"pubkeyacceptedalgorithms", &a.publicKeys,
			withCertificates(secure.PublicKeyAuths), withCertificates(weak.PublicKeyAuths),
		},
		{"casignaturealgorithms", &a.certificateAuthoritySignature, secure.PublicKeyAuths, weak.PublicKeyAuths},
	}
	for _, list := range lists {
		names, err := chooseAlgorithms(o.firstArgument(list.keyword), list.secure, list.weak)
		if err != nil {
			return configError("ssh_config: %s %s for %s: %w", list.keyword, o.firstArgument(list.keyword), t.alias, err)
		}
		*list.to = names
	}
	own := o.firstArgument("hostkeyalgorithms")
	a.hostKeysOrdered = own != "" && own[0] != '+' && own[0] != '-'
	return nil
}

// preferredHostKeys orders host key algorithms as ssh does, so that a new host is recorded with the key that ssh would
// record.
func preferredHostKeys(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int { return algorithmRank(a) - algorithmRank(b) })
	return names
}

// chooseAlgorithms evaluates a list of ssh_config: names that replace the default, or, after a sign, patterns that are
// added to the default (+), removed from it (-) or moved to its front (^).
func chooseAlgorithms(list string, secure, weak []string) ([]string, error) {
	if list == "" {
		return secure, nil
	}
	sign := list[0]
	if strings.IndexByte("+-^", sign) >= 0 {
		list = list[1:]
	}
	var named []string
	for pattern := range strings.SplitSeq(list, ",") {
		for _, name := range slices.Concat(secure, weak) {
			if matchWildcard(pattern, name) && !slices.Contains(named, name) {
				named = append(named, name)
			}
		}
	}
	isNamed := func(name string) bool { return slices.Contains(named, name) }
	chosen := named
	switch sign {
	case '+':
		isSecure := func(name string) bool { return slices.Contains(secure, name) }
		chosen = slices.Concat(secure, slices.DeleteFunc(named, isSecure))
	case '-':
		chosen = slices.DeleteFunc(slices.Clone(secure), isNamed)
	case '^':
		chosen = slices.Concat(named, slices.DeleteFunc(slices.Clone(secure), isNamed))
	}
	if len(chosen) == 0 {
		return nil, &unknownAlgorithmsError{known: slices.Concat(secure, weak)}
	}
	return chosen, nil
}

// unknownAlgorithmsError means that this package implements no algorithm of a list of ssh_config.
type unknownAlgorithmsError struct{ known []string }

func (e *unknownAlgorithmsError) Error() string {
	return "none of these is implemented here; allow one of " + strings.Join(e.known, ", ") +
		" for this host, or use another config_file"
}

// certificateSuffix ends the names of algorithms for certificates.
const certificateSuffix = "-cert-v01@openssh.com"

// withCertificates adds the names of the same algorithms for certificates.
func withCertificates(names []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		all = append(all, certificateAlgorithm(name))
	}
	return all
}

func certificateAlgorithm(name string) string {
	return strings.TrimSuffix(name, "@openssh.com") + certificateSuffix
}

// signatureAlgorithms returns the algorithms that a key may sign with, according to its type and ssh_config.
func (a *algorithms) signatureAlgorithms(key xssh.PublicKey) []string {
	keyType, isCertificate := key.Type(), false
	if certificate, ok := key.(*xssh.Certificate); ok {
		keyType, isCertificate = certificate.Key.Type(), true
	}
	own := []string{keyType}
	if keyType == xssh.KeyAlgoRSA {
		own = []string{xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256, xssh.KeyAlgoRSA}
	}
	return slices.DeleteFunc(own, func(name string) bool {
		if isCertificate {
			name = certificateAlgorithm(name)
		}
		return !slices.Contains(a.publicKeys, name)
	})
}
