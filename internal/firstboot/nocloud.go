package firstboot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// VolumeLabel is the label by which cloud-init finds a NoCloud medium.
const VolumeLabel = "cidata"

// MaxBytes is the largest medium, and the largest Ignition configuration, that is accepted, in bytes. Whatever doesn't
// fit is better fetched by the guest.
const MaxBytes = 16 << 20

// NoCloud is what cloud-init reads from its NoCloud medium. It may hold secrets: printing it shows none of it.
type NoCloud struct {
	// InstanceID tells cloud-init whether this is the first boot: it configures the guest once for each value. The id of
	// the VM is the usual one. Meta data that names an instance-id itself needs none; if both are set, they must agree.
	InstanceID string
	// Hostname is the guest's local-hostname if the meta data doesn't name one. Empty: cloud-init leaves the guest's
	// name alone.
	Hostname string
	// UserData is what cloud-init carries out: "#cloud-config", a script, a MIME multi-part, ... Empty: nothing.
	UserData string
	// MetaData is a YAML mapping. Empty: it has the instance id and the hostname alone.
	MetaData string
	// VendorData has the formats of UserData. Empty: the medium has no such file.
	VendorData string
	// NetworkConfig is a YAML mapping of version 1 or 2. Empty: the medium has no such file, and cloud-init brings up
	// the first interface with DHCP.
	NetworkConfig string
}

// String shows nothing: user data holds secrets.
func (NoCloud) String() string { return "NoCloud(content not shown)" }

// GoString shows nothing either.
func (n NoCloud) GoString() string { return n.String() }

// Medium is a finished ISO 9660 image. It may hold secrets: printing it shows its size alone.
type Medium struct{ image []byte }

// Bytes is the image itself. It must not be changed.
func (m *Medium) Bytes() []byte { return m.image }

// Reader reads the image from its start.
func (m *Medium) Reader() *bytes.Reader { return bytes.NewReader(m.image) }

// Size is the image's length in bytes, a multiple of 2048.
func (m *Medium) Size() int64 { return int64(len(m.image)) }

// Digest is "sha256:" and the image's SHA-256 in hexadecimal digits. Whoever knows all of the content but a short
// password could try passwords against it: with write-only content, compare it but don't store it.
func (m *Medium) Digest() string {
	sum := sha256.Sum256(m.image)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// String shows nothing of the content.
func (m *Medium) String() string { return fmt.Sprintf("Medium(%d bytes)", len(m.image)) }

// GoString shows nothing of the content.
func (m *Medium) GoString() string { return m.String() }

// OrInstanceID returns the data with this instance id, unless it has one of its own or in its meta data.
func (n NoCloud) OrInstanceID(id string) NoCloud {
	if n.InstanceID == "" && !n.namesInstance() {
		n.InstanceID = id
	}
	return n
}

// Validate lists what is wrong with n. A missing instance id isn't: it may not be known yet.
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

// Medium makes the image. Its error joins what Validate lists, each a Problem; without an instance id it fails too.
func (n NoCloud) Medium() (*Medium, error) {
	if problems := n.Validate(); len(problems) > 0 {
		return nil, join(problems)
	}
	files, problem := n.files()
	if problem != nil {
		return nil, problem
	}
	if n.InstanceID == "" && !n.namesInstance() {
		return nil, &Problem{Field: FieldInstanceID, Reason: "it is required, because the meta data doesn't name one"}
	}
	return &Medium{image: isoImage(VolumeLabel, files)}, nil
}

// files are the files of the medium, in the order of their names.
func (n NoCloud) files() ([]isoFile, *Problem) {
	metaData, problem := n.metaData()
	if problem != nil {
		return nil, problem
	}
	files := []isoFile{{shortName: "METADATA.;1", name: "meta-data", content: metaData}}
	if n.NetworkConfig != "" {
		files = append(files, isoFile{shortName: "NETCONF.;1", name: "network-config", content: []byte(n.NetworkConfig)})
	}
	// cloud-init takes a medium without user-data for another one's, so it is there even when it is empty.
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
