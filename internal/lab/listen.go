package lab

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Where libvirtd listens for others, by libvirt's own choice.
const (
	tcpPort = "16509"
	tlsPort = "16514"
)

const listenSettings = `
listen_tcp = 1
auth_tcp = "none"
listen_tls = %d
listen_addr = "%s"
key_file = "/etc/libvirt/pki/server-key.pem"
cert_file = "/etc/libvirt/pki/server-cert.pem"
ca_file = "/etc/libvirt/pki/ca-cert.pem"
`

// Listen has the libvirtd of a host that StartHost made listen on the network until the test ends: with TCP, where it
// accepts every client, and with TLS if an authority is given, where it accepts that authority's clients. The host goes
// by its address.
func (l *Lab) Listen(t testing.TB, h *Host, a *Authority) {
	t.Helper()
	restart := l.KillLibvirtd(t, h)
	tls, ports := 0, []string{tcpPort}
	if a != nil {
		a.equip(t, h, h.Address)
		tls, ports = 1, append(ports, tlsPort)
	}
	settings := fmt.Sprintf(listenSettings, tls, h.Address)
	if err := appendFile(h.Path("/etc/libvirt/libvirtd.conf"), settings); err != nil {
		t.Fatal(err)
	}
	h.listens = true
	restart()
	ctx, cancel := stepContext(t)
	defer cancel()
	for _, port := range ports {
		if err := dialable(ctx, "libvirtd of "+h.Name, net.JoinHostPort(h.Address, port)); err != nil {
			t.Fatal(err)
		}
	}
}

// Client makes a directory with what a client of the authority's hosts needs, under the names that libvirt gives it.
func (a *Authority) Client(t testing.TB) string {
	t.Helper()
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"cacert.pem": a.sign(t, a.cert, a.key), "clientcert.pem": cert, "clientkey.pem": privatePEM(t, key),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
