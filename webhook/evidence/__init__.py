"""What earlier runs teach: recipes, and what profiles of them say of a job."""
