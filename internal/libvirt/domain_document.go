package libvirt

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// isLive reports whether a domain's XML describes a running domain: only a running domain has an id.
func isLive(document string) bool {
	decoder := xml.NewDecoder(strings.NewReader(document))
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if start, ok := token.(xml.StartElement); ok {
			for _, attribute := range start.Attr {
				if attribute.Name.Local == "id" {
					return true
				}
			}
			return false
		}
	}
}

// domainName reads the name from a document. The name in a handle is that of the time when it was looked up. It reads
// no further than the name, which libvirt writes before the devices.
func domainName(document string) (string, error) {
	decoder := xml.NewDecoder(strings.NewReader(document))
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return "", fmt.Errorf("%w: a domain's name can't be read: %w", ErrInternal, err)
		}
		switch element := token.(type) {
		case xml.StartElement:
			if depth++; depth == 2 && element.Name.Local == "name" {
				var name string
				err := decoder.DecodeElement(&name, &element)
				return name, err
			}
		case xml.EndElement:
			depth--
		}
	}
}
