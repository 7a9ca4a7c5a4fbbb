package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs the certificates with which a test's hosts migrate over TLS.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority for an hour.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	a.key = newKey(t)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate for key, in PEM.
func (a *Authority) sign(t testing.TB, cert *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func privatePEM(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// pkiDir is where a host has what TLS takes.
const pkiDir = "/etc/libvirt/pki"

// equip writes what TLS takes, for an address that should be the host's own.
func (a *Authority) equip(t testing.TB, h *Host, address string) {
	t.Helper()
	a.write(t, h.Path(pkiDir), h.Name, address)
}

// write writes what TLS takes into a directory, for a name and an address.
func (a *Authority) write(t testing.TB, dir, name, address string) {
	t.Helper()
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	private := privatePEM(t, key)
	for name, data := range map[string][]byte{
		"ca-cert.pem": a.sign(t, a.cert, a.key), "server-cert.pem": cert, "server-key.pem": private,
		"client-cert.pem": cert, "client-key.pem": private,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Equip gives a host what TLS takes, for an address that should be its own, as its administrator does.
func (a *Authority) Equip(t testing.TB, l *Lab, h *Host, address string) {
	t.Helper()
	a.equip(t, h, address)
	conf := h.Path("/etc/libvirt/qemu.conf")
	settings, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte("\nmigrate_tls_x509_cert_dir = \"" + pkiDir + "\"\nnbd_tls_x509_cert_dir = \"" + pkiDir + "\"\n")
	if !bytes.Contains(settings, line) {
		if err := os.WriteFile(conf, append(settings, line...), 0o600); err != nil {
			t.Fatal(err)
		}
		l.KillLibvirtd(t, h)()
	}
}

// EquipNBD gives a fresh host what its QEMU takes for NBD with TLS, where libvirt looks for it when it starts.
func (a *Authority) EquipNBD(t testing.TB, l *Lab, h *Host) {
	t.Helper()
	const dir = "/etc/pki/libvirt-nbd"
	a.write(t, h.Path(dir), h.Name, h.Address)
	l.Run(t, h.Name, "sh", "-ec", "chown -R libvirt-qemu "+dir+"\nsystemctl restart libvirtd")
}

// EquipLibvirt gives a fresh host what its libvirt takes for TLS, both as a server and as a client, where libvirt looks
// for it.
func (a *Authority) EquipLibvirt(t testing.TB, h *Host) {
	t.Helper()
	from := h.Path("/etc/pki/lab")
	a.write(t, from, h.Name, h.Address)
	for file, name := range map[string]string{
		"CA/cacert.pem": "ca-cert.pem", "libvirt/servercert.pem": "server-cert.pem",
		"libvirt/private/serverkey.pem": "server-key.pem", "libvirt/clientcert.pem": "client-cert.pem",
		"libvirt/private/clientkey.pem": "client-key.pem",
	} {
		to := h.Path("/etc/pki/" + file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(from, name), to); err != nil {
			t.Fatal(err)
		}
	}
}
