"""The bundled PyTorch trainer."""
