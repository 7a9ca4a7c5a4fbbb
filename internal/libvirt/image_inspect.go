package libvirt

import "encoding/binary"

// InspectedImage is what the first bytes of an image say. It is found without asking a host.
type InspectedImage struct {
	ImageHeader

	// CapacityBytes is the size of a qcow2 image that a guest sees.
	CapacityBytes uint64
}

// qcow2CapacityAt is the offset in a qcow2 header of the size that a guest sees.
const qcow2CapacityAt = 24

// InspectImage reads the first 64 KiB of an image, or all of a smaller image. It returns ErrUnsupported if the image
// has its data in another file or is marked as corrupt.
func InspectImage(data []byte) (*InspectedImage, error) {
	header, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	image := &InspectedImage{ImageHeader: *header}
	if header.QCOW2 {
		image.CapacityBytes = binary.BigEndian.Uint64(data[qcow2CapacityAt:])
	}
	return image, nil
}
