// SPDX-License-Identifier: GPL-2.0-only OR MIT

// An HTTP/3 server of a folder's files, and a client that fetches one, by quic-go.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

func main() {
	options := flag.NewFlagSet("quic-go", flag.ExitOnError)
	listen := options.String("listen", "", "address and port of the server")
	certificate := options.String("certificate", "", "the server's certificate; of a client: whom it trusts")
	key := options.String("key", "", "the certificate's key")
	root := options.String("root", "", "the folder that is served")
	url := options.String("url", "", "what is fetched")
	out := options.String("out", "", "the folder that gets it")
	window := options.Uint64("window", 0, "bytes of the flow-control windows; 0: quic-go's own")
	logs := options.String("qlog", "", "the folder of qlog files")
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say server or client"))
	}
	options.Parse(os.Args[2:])
	config := &quic.Config{
		InitialStreamReceiveWindow:     *window,
		MaxStreamReceiveWindow:         *window,
		InitialConnectionReceiveWindow: *window,
		MaxConnectionReceiveWindow:     *window,
	}
	if *logs != "" {
		// Where quic-go looks for the name of the folder.
		os.Setenv("QLOGDIR", *logs)
		config.Tracer = qlog.DefaultConnectionTracer
	}
	switch os.Args[1] {
	case "server":
		server := http3.Server{Addr: *listen, QUICConfig: config, Handler: http.FileServer(http.Dir(*root))}
		fail(server.ListenAndServeTLS(*certificate, *key))
	case "client":
		fail(fetch(*url, *certificate, *out, config))
	default:
		fail(fmt.Errorf("%s: say server or client", os.Args[1]))
	}
}

// fetch writes the file of a URL into a folder.
func fetch(url, certificate, out string, config *quic.Config) error {
	text, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "localhost"},
		QUICConfig:      config,
	}
	defer transport.Close()
	answer, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	file, err := os.Create(filepath.Join(out, path.Base(url)))
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, answer.Body); err != nil {
		return err
	}
	return file.Close()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
