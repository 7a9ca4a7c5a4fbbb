package libvirt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// tlsIdentity is what a client of a daemon with TLS has: where the files are that libvirt's client would use.
type tlsIdentity struct {
	serverName                           string
	authority, revoked, certificate, key string
}

// newTLSIdentity finds the files in the folder that the URI names as pkipath, or else where libvirt looks for them: in
// the user's home, unless the user is root, and on the computer.
func newTLSIdentity(serverName, pkiPath string) *tlsIdentity {
	in := func(dir string) *tlsIdentity {
		file := func(name string) string { return filepath.Join(dir, name) }
		return &tlsIdentity{serverName, file("cacert.pem"), file("cacrl.pem"), file("clientcert.pem"), file("clientkey.pem")}
	}
	if pkiPath != "" {
		return in(pkiPath)
	}
	found := &tlsIdentity{
		serverName, "/etc/pki/CA/cacert.pem", "/etc/pki/CA/cacrl.pem", "/etc/pki/libvirt/clientcert.pem",
		"/etc/pki/libvirt/private/clientkey.pem",
	}
	home, err := os.UserHomeDir()
	if err != nil || os.Geteuid() == 0 {
		return found
	}
	own := in(filepath.Join(home, ".pki", "libvirt"))
	if exists(own.authority) {
		found.authority = own.authority
	}
	if exists(own.revoked) {
		found.revoked = own.revoked
	}
	if exists(own.certificate) && exists(own.key) {
		found.certificate, found.key = own.certificate, own.key
	}
	return found
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// dial opens an encrypted stream to a daemon, as libvirt's client does. It checks the daemon's certificate, and the
// daemon has accepted the client.
func (i *tlsIdentity) dial(ctx context.Context, address string) (net.Conn, error) {
	if exists(i.revoked) {
		return nil, fmt.Errorf("lists of revoked certificates, such as %s, are libvirt's to check", i.revoked)
	}
	authority, err := os.ReadFile(i.authority)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificates", i.authority)
	}
	config := &tls.Config{ServerName: i.serverName, RootCAs: authorities, MinVersion: tls.VersionTLS12}
	// A client without a certificate is the daemon's to refuse.
	if exists(i.certificate) || exists(i.key) {
		own, err := tls.LoadX509KeyPair(i.certificate, i.key)
		if err != nil {
			return nil, fmt.Errorf("reading the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// After the handshake the daemon checks the client's certificate, and sends this byte if it accepts the client.
	unblock := context.AfterFunc(ctx, func() { _ = conn.Close() })
	accepted := make([]byte, 1)
	_, err = conn.Read(accepted)
	if !unblock() {
		return nil, context.Cause(ctx)
	}
	if err != nil || accepted[0] != 1 {
		refused := errors.New("the daemon doesn't accept the client's certificate or address")
		return nil, errors.Join(refused, err, conn.Close())
	}
	return conn, nil
}
