# Prints how long a stream was of which only the beginning is kept; of any other, nothing that counts.
written() {
  read -r rest <"$run/$1.rest" && echo $(($(wc -c <"$run/$1") + rest)) || echo 0
}
