package ssh

import (
	"errors"
	"slices"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

func TestAlgorithms_followSSHConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config string
		want   string // Sought in the error; "" for a connection.
	}{
		"nothing":        {config: ""},
		"cipher that is": {config: "Ciphers aes256-ctr\n"},
		"cipher that isn't": {
			config: "Ciphers aes128-gcm@openssh.com\n", want: "no common algorithm for client to server cipher",
		},
		"mac that isn't": {
			config: "Ciphers aes256-ctr\nMACs hmac-sha2-512-etm@openssh.com\n", want: "no common algorithm",
		},
		"kex that isn't":   {config: "KexAlgorithms ecdh-sha2-nistp521\n", want: "no common algorithm for key exchange"},
		"kex removed":      {config: "KexAlgorithms -curve25519*\n", want: "no common algorithm for key exchange"},
		"none of ours":     {config: "Ciphers twofish-cbc\n", want: "none of these is implemented here"},
		"our names, too":   {config: "MACs umac-64-etm@openssh.com,hmac-sha2-256-etm@openssh.com\n"},
		"host key":         {config: "HostKeyAlgorithms ecdsa-sha2-nistp256\n", want: "has changed"},
		"own key":          {config: "PubkeyAcceptedAlgorithms rsa-sha2-512\n", want: "PubkeyAcceptedAlgorithms"},
		"own key, once so": {config: "PubkeyAcceptedKeyTypes rsa-sha2-512\n", want: "PubkeyAcceptedAlgorithms"},
		"own key allowed":  {config: "PubkeyAcceptedAlgorithms ssh-ed25519*\n"},
	}
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized(), "Ciphers aes256-ctr", "MACs hmac-sha2-256-etm@openssh.com",
		"KexAlgorithms curve25519-sha256")
	socket := echoSocket(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := server.config(t, key)
			cfg.ConfigFile = writeFile(t, test.config)
			client := newClient(t, cfg)
			if test.want == "" {
				checkEcho(t, client, socket)
				return
			}
			if _, err := client.DialUnix(t.Context(), socket); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestChooseAlgorithms_evaluatesLists(t *testing.T) {
	t.Parallel()
	secure, weak := []string{"a1", "a2", "b1"}, []string{"w1"}
	tests := map[string]string{
		"": "a1 a2 b1", "b1,a1": "b1 a1", "b1,unknown": "b1", "+w1": "a1 a2 b1 w1", "+a1": "a1 a2 b1", "-a*": "b1",
		"^b1": "b1 a1 a2", "^w?": "w1 a1 a2 b1", "w1": "w1", "-unknown": "a1 a2 b1", "unknown": "", "-*": "",
	}
	for list, want := range tests {
		got, err := chooseAlgorithms(list, slices.Clone(secure), weak)
		var unknown *unknownAlgorithmsError
		if strings.Join(got, " ") != want || errors.As(err, &unknown) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
	}
}

// TestAlgorithms_areSecureByDefault: weak algorithms are negotiated only if the configuration asks for them.
func TestAlgorithms_areSecureByDefault(t *testing.T) {
	t.Parallel()
	to := &target{}
	noError(t, to.resolveAlgorithms(options{}))
	weak := xssh.InsecureAlgorithms()
	a := to.algorithms
	for _, name := range slices.Concat(weak.Ciphers, weak.MACs, weak.KeyExchanges, weak.HostKeys, weak.PublicKeyAuths) {
		if slices.Contains(slices.Concat(a.ciphers, a.macs, a.keyExchanges, a.hostKeys, a.publicKeys,
			a.certificateAuthoritySignature), name) {
			t.Errorf("%s is allowed", name)
		}
	}
}
