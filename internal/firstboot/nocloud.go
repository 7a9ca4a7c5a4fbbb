package firstboot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// volumeLabel is the label by which cloud-init finds a NoCloud medium.
const volumeLabel = "cidata"

// MaxBytes is the largest accepted size in bytes of a medium and of an Ignition configuration. The guest should fetch
// larger content itself.
const MaxBytes = 16 << 20

// NoCloud is what cloud-init reads from its NoCloud medium. It may hold secrets: printing it shows none of its content.
type NoCloud struct {
	// InstanceID tells cloud-init whether this is the first boot: cloud-init configures the guest once for each value. It
	// usually is the id of the VM. It isn't required if the meta data has an instance-id; if both are set, they must be
	// equal.
	InstanceID string
	// Hostname is the guest's local-hostname, unless the meta data has one. If empty, cloud-init doesn't change the
	// guest's name.
	Hostname string
	// UserData is what cloud-init executes: "#cloud-config", a script, a MIME multi-part, ... If empty, nothing.
	UserData string
	// MetaData is a YAML mapping. If empty, it only has the instance id and the hostname.
	MetaData string
	// VendorData has the formats of UserData. If empty, the medium has no such file.
	VendorData string
	// NetworkConfig is a YAML mapping of version 1 or 2. If empty, the medium has no such file, and cloud-init configures
	// the first interface with DHCP.
	NetworkConfig string
}

// String returns a text without the content: user data holds secrets.
func (NoCloud) String() string { return "NoCloud(content not shown)" }

// GoString returns a text without the content.
func (n NoCloud) GoString() string { return n.String() }

// Medium is a finished ISO 9660 image. It may hold secrets: printing it only shows its size.
type Medium struct{ image []byte }

// Bytes returns the image. It must not be changed.
func (m *Medium) Bytes() []byte { return m.image }

// Reader returns a reader of the image from its start.
func (m *Medium) Reader() *bytes.Reader { return bytes.NewReader(m.image) }

// Size returns the image's length in bytes, a multiple of 2048.
func (m *Medium) Size() int64 { return int64(len(m.image)) }

// Digest returns "sha256:" and the image's SHA-256 in hexadecimal digits. If all of the content except a short password
// is known, the digest allows trying passwords: for write-only content, compare the digest but don't store it.
func (m *Medium) Digest() string {
	sum := sha256.Sum256(m.image)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// String returns a text without the content.
func (m *Medium) String() string { return fmt.Sprintf("Medium(%d bytes)", len(m.image)) }

// GoString returns a text without the content.
func (m *Medium) GoString() string { return m.String() }

// Instance returns the instance id that cloud-init reads: InstanceID, or else that of the meta data. It returns "" if
// neither has one.
func (n NoCloud) Instance() string {
	if n.InstanceID != "" {
		return n.InstanceID
	}
	return n.ownInstance()
}

// OrInstanceID returns the data with this instance id, unless it has one, in InstanceID or in its meta data.
func (n NoCloud) OrInstanceID(id string) NoCloud {
	if n.Instance() == "" {
		n.InstanceID = id
	}
	return n
}

// Validate returns what is wrong with n. It accepts a missing instance id, which may be unknown yet.
func (n NoCloud) Validate() []Problem {
	var problems []Problem
	problems = append(problems, validateUserData(FieldUserData, n.UserData)...)
	problems = append(problems, validateUserData(FieldVendorData, n.VendorData)...)
	problems = append(problems, validateNetworkConfig(n.NetworkConfig)...)
	if _, err := n.metaData(); err != nil {
		problems = append(problems, *err)
	}
	if len(problems) > 0 {
		return problems
	}
	if files, err := n.files(); err == nil && isoSize(files) > MaxBytes {
		problems = append(problems, Problem{Reason: fmt.Sprintf(
			"the medium would have %d bytes; at most %d are accepted. Let the guest fetch what is large, for example with "+
				"#include or write_files.source", isoSize(files), MaxBytes)})
	}
	return problems
}

// Medium creates the image. Its error joins the problems that Validate returns, each a Problem. It also fails without
// an instance id.
func (n NoCloud) Medium() (*Medium, error) {
	if problems := n.Validate(); len(problems) > 0 {
		return nil, join(problems)
	}
	files, problem := n.files()
	if problem != nil {
		return nil, problem
	}
	if n.Instance() == "" {
		return nil, &Problem{Field: FieldInstanceID, Reason: "it is required, because the meta data doesn't name one"}
	}
	return &Medium{image: isoImage(volumeLabel, files)}, nil
}

// files returns the files of the medium, in the order of their names.
func (n NoCloud) files() ([]isoFile, *Problem) {
	metaData, problem := n.metaData()
	if problem != nil {
		return nil, problem
	}
	files := []isoFile{{shortName: "METADATA.;1", name: "meta-data", content: metaData}}
	if n.NetworkConfig != "" {
		files = append(files, isoFile{shortName: "NETCONF.;1", name: "network-config", content: []byte(n.NetworkConfig)})
	}
	// cloud-init ignores a medium without user-data, so the file exists even if it is empty.
	files = append(files, isoFile{shortName: "USERDATA.;1", name: "user-data", content: []byte(n.UserData)})
	if n.VendorData != "" {
		files = append(files, isoFile{shortName: "VENDDATA.;1", name: "vendor-data", content: []byte(n.VendorData)})
	}
	return files, nil
}

func join(problems []Problem) error {
	errs := make([]error, len(problems))
	for i := range problems {
		errs[i] = &problems[i]
	}
	return errors.Join(errs...)
}
