package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// NetworkRows are the attributes of a network source that each have one place in its element.
var NetworkRows = []Attribute{
	{
		Name: "tls", Place: "@tls", Kind: Switch, Since: "4.5.0",
		DefaultDoc: "the value of `nbd_tls` in the host's `qemu.conf`",
		Doc: "Whether QEMU connects with TLS, for `nbd`. The hosts have the certificates in libvirt's directory for " +
			"NBD (`nbd_tls_x509_cert_dir` in `qemu.conf`).",
	},
	{
		Name: "tls_hostname", Place: "@tlsHostname", Since: "8.2.0",
		Doc: "Name that the server's certificate has, if it isn't the one in `hosts`. For `nbd` with `tls`.",
	},
	{
		Name: "ssl_verify", Place: "ssl@verify", Kind: Switch, Since: "6.2.0",
		DefaultDoc: "`true`",
		Doc:        "Whether QEMU checks the server's certificate, for `https` and `ftps`.",
	},
	{
		Name: "query", Place: "@query", Since: "6.2.0",
		Doc: "Query of the URL, for `http` and `https`, without the question mark. It is kept in the state.",
	},
	{
		Name: "timeout", Place: "timeout@seconds", Kind: Count, Zero: true, Since: "6.2.0",
		Doc: "Seconds after which a request fails, for `http`, `https`, `ftp`, `ftps` and `tftp`; `0`: QEMU's default.",
	},
	{
		Name: "readahead", Place: "readahead@size", Kind: Count, Zero: true, Since: "6.2.0",
		Doc: "Bytes that are read ahead, for `http`, `https`, `ftp`, `ftps` and `tftp`; `0`: QEMU's default.",
	},
	{
		Name: "initiator", Place: "initiator/iqn@name", Since: "4.7.0",
		DefaultDoc: "QEMU's name of the VM, `iqn.2008-11.org.linux-kvm:<name>`",
		Doc:        "Name (IQN) with which QEMU logs in to the target, for `iscsi`.",
	},
	{
		Name: "snapshot", Place: "snapshot@name", Since: "1.2.11",
		Doc: "Snapshot of the image to read, for `rbd`. Ceph's snapshots can't be written to: set `read_only` too.",
	},
	{
		Name: "config_file", Place: "config@file", Since: "1.2.11", Check: absolute,
		DefaultDoc: "Ceph's own, `/etc/ceph/ceph.conf`",
		Doc:        "Path of Ceph's configuration on the host, for `rbd`.",
	},
}

// networkRows are NetworkRows as rows.
var networkRows rows = NetworkRows

// readOnlyProtocols are the protocols of servers that can only be read.
var readOnlyProtocols = []string{"http", "https", "ftp", "ftps", "tftp"}

// rowProtocols are the protocols that support a row, by the row's name.
var rowProtocols = map[string][]string{
	"tls": {"nbd"}, "tls_hostname": {"nbd"}, "ssl_verify": {"https", "ftps"}, "query": {"http", "https"},
	"timeout": readOnlyProtocols, "readahead": readOnlyProtocols,
	"initiator": {"iscsi"}, "snapshot": {"rbd"}, "config_file": {"rbd"},
}

// applyNetworkRows sets what is declared of a network source. The rows of an earlier source with another protocol are
// removed.
func applyNetworkRows(disk, source *etree.Element, before, want NetworkSource) {
	values := want.Values
	if before.Protocol != want.Protocol {
		dropChildren(source, "cookies", "auth")
		dropChildren(disk, "auth")
		values = Values{}
		for _, a := range networkRows {
			values[a.Name] = want.Values[a.Name]
		}
	}
	_ = networkRows.apply(source, "", values) // No row refuses a value that was validated.
}

// sameNetworkRows reports whether a agrees with everything that b declares.
func sameNetworkRows(a, b Values) bool {
	return !slices.ContainsFunc(networkRows, func(row Attribute) bool {
		want, declared := b[row.Name]
		return declared && !row.same(a[row.Name], want)
	})
}

// checkRows checks that the protocol supports the declared rows.
func (n NetworkSource) checkRows(c *checker, path string) {
	networkRows.validate(c, path, n.Values, func(string, string) bool { return false })
	for _, row := range networkRows {
		protocols := rowProtocols[row.Name]
		c.require(n.Values[row.Name] == "" || n.Protocol == "" || slices.Contains(protocols, n.Protocol),
			join(path, row.Name),
			fmt.Sprintf("Only %s has it.", strings.Join(protocols, ", ")))
	}
	c.require(n.Values["tls_hostname"] == "" || n.Values["tls"] != "no", join(path, "tls_hostname"), "It requires tls.")
}
